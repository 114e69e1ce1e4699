import type { BackoffOption } from '../core/backoff.ts'
import { checkText } from '../core/check.ts'
import type { Duration } from '../core/duration.ts'
import { InvalidOptionError } from '../core/errors.ts'
import { declareKind, type Kind } from '../core/kind.ts'
import { checkOptions } from '../core/options.ts'
import { declareQueue, type OnDeadLetter, type Queue } from '../core/queue.ts'

export interface DestinationOptions {
  /** The transport that a relay must serve it with, by its name, such as `sqs`. */
  readonly transport: string
  /** Which types of events it gets: whole names, or beginnings such as `order.*`. Default: all. */
  readonly types?: readonly string[]
  /** The effect on later events of a key when one cannot be sent: block, skip or park. Default: block. */
  readonly onDeadLetter?: OnDeadLetter
  /** How often an event is refused for now before it becomes a dead letter. An outage does not count. Default: 20. */
  readonly maxAttempts?: number
  /** The delay after a refusal: doubles from `first` up to `max`. Default: 1s, 5m. */
  readonly backoff?: BackoffOption
  /** How long the record that an event was sent is kept, at most 90d. False: not at all. Default: 7d. */
  readonly keep?: Duration | false
}

/** The job that sends one event to one destination. */
export interface EventReference {
  /** Of the event. */
  readonly id: string
  /** When it was published, by the database's clock. */
  readonly at: string
}

/** Where events go. */
export interface Destination {
  readonly name: string
  readonly transport: string
  /** Null: all. */
  readonly types: readonly string[] | null
  /** Its own ordered queue. */
  readonly queue: Queue
  readonly kind: Kind<EventReference>
}

/** Declares a destination, in a module that producers and relays share. Touches no database, and loads no client of a broker. */
export function destination(name: string, options: DestinationOptions): Destination {
  checkText('name', name, 100)
  const of = `destination(${JSON.stringify(name)})`
  checkOptions(of, options, ['transport', 'types', 'onDeadLetter', 'maxAttempts', 'backoff', 'keep'])
  const { onDeadLetter = 'block', maxAttempts = 20, backoff = {}, keep = '7d' } = options ?? {}
  const inQueue = `outbox:${name}`
  return Object.freeze({
    name,
    transport: checkText(`${of}.transport`, options?.transport, 100),
    types: options.types === undefined ? null : checkTypes(`${of}.types`, options.types),
    queue: declareQueue(inQueue, { ordered: true, onDeadLetter }),
    // An outage is waited for inside the handler, for less than this.
    kind: declareKind(inQueue, {
      ordered: true,
      maxAttempts,
      backoff: { first: '1s', max: '5m', ...backoff },
      timeout: '10m',
      keep,
    }) as Kind<EventReference>,
  })
}

function checkTypes(option: string, types: readonly string[]): readonly string[] {
  if (!Array.isArray(types) || types.length === 0) {
    throw new InvalidOptionError(
      option,
      "it must be a list such as ['order.paid', 'invoice.*']; leave it out for all types",
    )
  }
  for (const [index, type] of types.entries()) {
    checkText(`${option}[${index}]`, type, 200)
    if (type.slice(0, -1).includes('*')) {
      throw new InvalidOptionError(`${option}[${index}]`, 'an asterisk stands at the end, as in order.*')
    }
  }
  return Object.freeze([...types])
}
