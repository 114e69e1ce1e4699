import { type ConsumerOptions, checkConsumer, commonSettings, wholeSeconds } from '../consumer/options.ts'
import type { Duration } from '../core/duration.ts'
import { InvalidOptionError } from '../core/errors.ts'
import type { NatsAttributes } from './message.ts'
import { WAIT_MS } from './queue.ts'
import { isSubject } from './subject.ts'

export interface NatsConsumerOptions<Body = unknown> extends ConsumerOptions<Body, NatsAttributes> {
  readonly stream: string
  /** The durable consumer of the stream. It is created if it does not exist, and compared with these options if it does. */
  readonly consumer: string
  /** For a consumer that is created: the subjects it gets. Default: all of the stream. */
  readonly filterSubject?: string | undefined
  /** The consumer's `ack_wait`: how long others do not get a received message; extended while it is held. Default: 30s. */
  readonly visibility?: Duration
  /** One message at a time over all processes, each after the one before was acknowledged (`max_ack_pending` 1). Default: false. */
  readonly inOrder?: boolean
  /** Receives messages that can never be handled, with their reason. A stream must store it. Default: they are redelivered. */
  readonly deadLetterSubject?: string | undefined
}

const KNOWN = ['stream', 'consumer', 'filterSubject', 'visibility', 'inOrder', 'deadLetterSubject']
const OF = 'NatsConsumer'
const DAY_S = 86_400
/** What NATS accepts, and what its tools accept, too. */
const NAME = /^[A-Za-z0-9_-]{1,255}$/

export function settings<Body>(options: NatsConsumerOptions<Body>) {
  checkConsumer(OF, options, KNOWN)
  const { stream, consumer, filterSubject, deadLetterSubject, inOrder = false } = options
  for (const [name, value] of Object.entries({ stream, consumer })) {
    if (typeof value === 'string' && NAME.test(value)) continue
    throw new InvalidOptionError(`${OF}.${name}`, 'it must be a name of letters, digits, _ and -')
  }
  if (typeof inOrder !== 'boolean') throw new InvalidOptionError(`${OF}.inOrder`, 'it must be true or false')
  checkSubject(`${OF}.filterSubject`, filterSubject, true)
  checkSubject(`${OF}.deadLetterSubject`, deadLetterSubject, false)
  const common = commonSettings(OF, options, 'NATS consumer', `${stream}/${consumer}`)
  if (inOrder && options.concurrency !== undefined && common.concurrency !== 1) {
    throw new InvalidOptionError(`${OF}.concurrency`, 'with inOrder there is one message at a time; leave it out')
  }
  return {
    ...common,
    ...(inOrder ? { concurrency: 1 } : {}),
    stream,
    consumer,
    filterSubject,
    deadLetterSubject,
    inOrder,
    visibilityMs: wholeSeconds(`${OF}.visibility`, options.visibility ?? '30s', DAY_S) * 1_000,
    receiveMs: WAIT_MS,
    isGrouped: false, // JetStream has no groups.
    onGroupFailure: 'stop' as const,
  }
}

function checkSubject(option: string, subject: string | undefined, isFilter: boolean): void {
  if (subject === undefined || isSubject(subject, isFilter)) return
  throw new InvalidOptionError(option, `it must be a subject such as orders.paid${isFilter ? ' or orders.>' : ''}`)
}
