import { type Duration, durationMs } from './duration.ts'
import { checkOptions } from './options.ts'

/** How long rows are kept that belong to no kind. One setting for the whole schema, stored by `configure()`. */
export interface Retention {
  /** Dead letters, after they died. Default: 30d. */
  readonly deadLetters?: Duration
  /** The history of attempts that did not succeed. Default: 7d. */
  readonly attempts?: Duration
  /** The effects of a job, after they happened and when the job cannot run again. Default: 72h. */
  readonly effects?: Duration
  /** Workers after they were last seen, and operator actions. At least 1h. Default: 90d. */
  readonly workers?: Duration
  /** Events of the outbox, after they were published; longer if they are not sent. Default: 7d. */
  readonly events?: Duration
}

export const RETAINED = ['deadLetters', 'attempts', 'effects', 'workers', 'events'] as const

export type RetentionMs = Readonly<Record<(typeof RETAINED)[number], number>>

// A live worker is seen every 30 s; it must not be taken for one that is gone.
const LEAST_MS = { deadLetters: 0, attempts: 0, effects: 0, workers: 3_600_000, events: 0 }

/** The durations that were given. */
export function checkRetention(option: string, retention: Retention | undefined): Partial<RetentionMs> {
  checkOptions(option, retention, RETAINED)
  const given = RETAINED.filter((name) => retention?.[name] !== undefined)
  return Object.fromEntries(
    given.map((name) => [name, durationMs(`${option}.${name}`, retention![name]!, LEAST_MS[name])]),
  )
}
