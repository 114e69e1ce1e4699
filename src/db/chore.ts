import type { Pool } from 'pg'
import type { Duration } from '../core/duration.ts'

/** Something to be done every so often, by one worker of all. It must be safe to do twice. */
export interface Chore {
  readonly name: string
  readonly every: Duration
  /** Answers what it did, for the log and for the `chore` event. */
  run(pool: Pool, signal?: AbortSignal): Promise<Readonly<Record<string, number>>>
}
