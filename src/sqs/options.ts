import { type ConsumerOptions, checkConsumer, commonSettings, wholeSeconds } from '../consumer/options.ts'
import type { Duration } from '../core/duration.ts'
import { InvalidOptionError } from '../core/errors.ts'
import type { SqsAttributes } from './message.ts'
import { checkQueueUrl } from './queue-url.ts'
import { isFifo, MOST_S, queueName, WAIT_S } from './request.ts'

export interface SqsConsumerOptions<Body = unknown> extends ConsumerOptions<Body, SqsAttributes> {
  readonly queueUrl: string
  /** How long SQS hides a received message; extended while it is held. Whole seconds. Default: 30s. */
  readonly visibility?: Duration
  /** Receives messages that can never be handled, with their reason. Default: they are redelivered until SQS gives up. */
  readonly deadLetterQueueUrl?: string | undefined
  /** FIFO: whether messages behind one that was not deleted are returned (stop) or handled (skip). Default: stop. */
  readonly onGroupFailure?: 'stop' | 'skip'
}

const KNOWN = ['queueUrl', 'visibility', 'deadLetterQueueUrl', 'onGroupFailure']
const OF = 'SqsConsumer'

export function settings<Body>(options: SqsConsumerOptions<Body>) {
  checkConsumer(OF, options, KNOWN)
  const { onGroupFailure = 'stop' } = options
  if (onGroupFailure !== 'stop' && onGroupFailure !== 'skip') {
    throw new InvalidOptionError(`${OF}.onGroupFailure`, "it must be 'stop' or 'skip'")
  }
  const queueUrl = checkQueueUrl(`${OF}.queueUrl`, options.queueUrl)
  const common = commonSettings(OF, options, 'SQS queue', queueName(queueUrl))
  if (common.backoff.maxMs > MOST_S * 1_000) {
    throw new InvalidOptionError(`${OF}.backoff.max`, 'SQS hides a message for at most 12h')
  }
  return {
    ...common,
    queueUrl,
    isGrouped: isFifo(queueUrl),
    visibilityMs: wholeSeconds(`${OF}.visibility`, options.visibility ?? '30s', MOST_S) * 1_000,
    receiveMs: WAIT_S * 1_000,
    deadLetterQueueUrl: checkDeadLetters(queueUrl, options.deadLetterQueueUrl),
    onGroupFailure,
  }
}

function checkDeadLetters(queueUrl: string, url: string | undefined): string | undefined {
  if (url === undefined) return undefined
  const option = `${OF}.deadLetterQueueUrl`
  if (url === queueUrl) throw new InvalidOptionError(option, 'it is the queue itself, so dead letters would loop')
  return checkQueueUrl(option, url)
}
