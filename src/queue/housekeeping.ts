/** Duties that keep the tables in order. Each is one bounded statement, safe to run by several workers at once. */
import { checkInteger, checkMilliseconds } from '../core/check.ts'
import type { Lane } from '../db/lane.ts'
import {
  DROP_PARTITIONS,
  EXPIRE,
  MAKE_PARTITIONS,
  PRUNE_DEAD_LETTERS,
  PRUNE_DEFAULT_ARCHIVE,
  PRUNE_DEFAULT_ATTEMPTS,
  PRUNE_KEYS,
  SWEEP,
} from './housekeeping.sql.ts'
import type { JobId, Lease } from './job.ts'
import { checkId } from './parameters.ts'

// A statement that takes longer than somebody's timeout would be tried again for ever.
const JOBS_PER_SWEEP = 20_000

export interface Swept {
  /** Claims dealt with. Call again until there are none. */
  readonly claims: number
  readonly jobs: readonly (Lease & { readonly outcome: 'pending' | 'dead_letter' | 'cancelled' })[]
}

/** Returns the jobs of dead workers: every claim whose lease has run out. */
export async function sweep(lane: Lane, limit = 500): Promise<Swept> {
  const rows = await lane.run(SWEEP, [checkLimit(limit), JOBS_PER_SWEEP])
  const jobs = rows.filter((row) => row[1] !== null)
  return {
    claims: rows.length - jobs.length,
    jobs: jobs.map((row) => ({
      jobId: row[1] as JobId,
      generation: Number(row[2]),
      outcome: row[3] as 'pending' | 'dead_letter' | 'cancelled',
    })),
  }
}

/** Pending jobs past their expiry become dead letters. */
export async function expire(lane: Lane, limit = 1_000): Promise<JobId[]> {
  return (await lane.run(EXPIRE, [checkLimit(limit)])).map(([id]) => id as JobId)
}

/** Deletes dead letters older than `ageMs`. */
export async function pruneDeadLetters(lane: Lane, ageMs: number, limit = 1_000): Promise<number> {
  return (await lane.run(PRUNE_DEAD_LETTERS, [checkMilliseconds('ageMs', ageMs), checkLimit(limit)])).length
}

/**
 * Looks at up to `limit` idempotency keys after job `after` and deletes those kept long enough. Returns where to go on,
 * or undefined at the end.
 */
export async function pruneKeys(
  lane: Lane,
  after: JobId | '0' = '0',
  limit = 1_000,
): Promise<{ pruned: number; next: JobId | undefined }> {
  const [row] = await lane.run(PRUNE_KEYS, [after === '0' ? after : checkId('after', after), checkLimit(limit)])
  return { pruned: Number(row![0]), next: Number(row![1]) < limit ? undefined : (row![2] as JobId) }
}

/** Makes the daily partitions of today and the days ahead that are missing. */
export async function makePartitions(lane: Lane, daysAhead = 7): Promise<number> {
  return Number((await lane.run(MAKE_PARTITIONS, [checkInteger('daysAhead', daysAhead, 0, 366)]))[0]![0])
}

/** Forgets finished jobs past their time and attempts older than `attemptsMs`: whole days, and rows that fell into none. */
export async function pruneHistory(lane: Lane, attemptsMs: number, limit = 10_000): Promise<number> {
  const age = checkMilliseconds('attemptsMs', attemptsMs)
  const dropped = Number((await lane.run(DROP_PARTITIONS, [age]))[0]![0])
  const finished = await lane.run(PRUNE_DEFAULT_ARCHIVE, [checkLimit(limit)])
  const attempts = await lane.run(PRUNE_DEFAULT_ATTEMPTS, [age, limit])
  return dropped + finished.length + attempts.length
}

function checkLimit(limit: number): number {
  return checkInteger('limit', limit, 1, 10_000)
}
