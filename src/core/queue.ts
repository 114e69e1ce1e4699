import { checkText } from './check.ts'
import { InvalidOptionError } from './errors.ts'
import { checkOptions } from './options.ts'
import { checkStrategy, type Strategy } from './strategy.ts'

/** The effect on the later jobs of a key when one of its jobs becomes a dead letter. */
export type OnDeadLetter = (typeof ON_DEAD_LETTER)[number]

const ON_DEAD_LETTER = ['block', 'skip', 'park'] as const

export interface QueueOptions {
  /** Jobs with the same partition key start one after the other. Default: false. */
  readonly ordered?: boolean
  /**
   * Of each partition key one job is claimed in turn, so that a key with many jobs does not delay the others. They may run at the
   * same time. Default: false.
   */
  readonly fair?: boolean
  /** Of an ordered queue. Default: block. */
  readonly onDeadLetter?: OnDeadLetter
  /**
   * Notify idle workers of new jobs, by NOTIFY when the enqueue commits. False: workers find jobs by polling; producers that
   * commit at the same time do not wait for each other, and a transaction that enqueued can be prepared. Default: true.
   */
  readonly wakeUp?: boolean
  /**
   * Each partition key has one worker that claims its jobs, as long as the same workers run. True: by consistent hashing. Jobs without
   * a key are claimed by any worker. Default: false.
   */
  readonly ring?: boolean | Strategy
}

/** A queue that workers claim from. */
export interface Queue {
  readonly name: string
  readonly ordered: boolean
  readonly fair: boolean
  readonly onDeadLetter: OnDeadLetter
  readonly wakeUp: boolean
  readonly ring: Strategy | null
}

/** Of the queues and kinds that send events, one for each destination. Their inputs refer to events, and retention reads them. */
const RESERVED = 'outbox:'

/** The name of a queue or kind of the user's. */
export function checkName(option: string, name: string): string {
  if (checkText(option, name, 200).startsWith(RESERVED)) {
    throw new InvalidOptionError(
      option,
      `${JSON.stringify(name)} begins with ${RESERVED}, as the queues of destinations do; use another name, or destination() for events`,
    )
  }
  return name
}

/**
 * Declares a queue, for `configure()`. A queue that needs no options need not be declared: a kind names its queue. Touches
 * no database.
 */
export function queue(name: string, options: QueueOptions = {}): Queue {
  return declareQueue(checkName('name', name), options)
}

/** With any name. */
export function declareQueue(name: string, options: QueueOptions): Queue {
  const of = `queue(${JSON.stringify(name)})`
  checkOptions(of, options, ['ordered', 'fair', 'onDeadLetter', 'wakeUp', 'ring'])
  const { ordered = false, fair = false, onDeadLetter = 'block', wakeUp = true, ring = false } = options
  if (typeof ordered !== 'boolean') throw new InvalidOptionError(`${of}.ordered`, 'it must be true or false')
  if (typeof fair !== 'boolean') throw new InvalidOptionError(`${of}.fair`, 'it must be true or false')
  if (ordered && fair) throw new InvalidOptionError(`${of}.fair`, '`ordered` and `fair` are mutually exclusive')
  if (typeof wakeUp !== 'boolean') throw new InvalidOptionError(`${of}.wakeUp`, 'it must be true or false')
  if (!ON_DEAD_LETTER.includes(onDeadLetter)) {
    throw new InvalidOptionError(`${of}.onDeadLetter`, `it must be one of ${ON_DEAD_LETTER.join(', ')}`)
  }
  const strategy = ring === false ? null : ring === true ? 'consistent' : checkStrategy(`${of}.ring`, ring)
  return Object.freeze({ name, ordered, fair, onDeadLetter, wakeUp, ring: strategy })
}
