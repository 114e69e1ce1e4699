/** Duties that keep the tables in order. Each is one bounded statement, safe to run by several workers at once. */
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

export interface Swept {
  /** Claims looked at; as many as the limit means: call again. */
  readonly claims: number
  readonly jobs: readonly (Lease & { readonly outcome: 'pending' | 'dead_letter' | 'cancelled' })[]
}

/** Returns the jobs of dead workers: every claim whose lease has run out. */
export async function sweep(lane: Lane, limit = 20): Promise<Swept> {
  const rows = await lane.run(SWEEP, [limit])
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
  return (await lane.run(EXPIRE, [limit])).map(([id]) => id as JobId)
}

/** Deletes dead letters older than `ageMs`. */
export async function pruneDeadLetters(lane: Lane, ageMs: number, limit = 1_000): Promise<number> {
  return (await lane.run(PRUNE_DEAD_LETTERS, [ageMs, limit])).length
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
  const [row] = await lane.run(PRUNE_KEYS, [after, limit])
  return { pruned: Number(row![0]), next: Number(row![1]) < limit ? undefined : (row![2] as JobId) }
}

/** Makes the daily partitions of today and the days ahead that are missing. */
export async function makePartitions(lane: Lane, daysAhead = 7): Promise<number> {
  return Number((await lane.run(MAKE_PARTITIONS, [daysAhead]))[0]![0])
}

/** Forgets finished jobs and attempts older than `ageMs`: drops whole days, and rows that fell into no day. */
export async function pruneHistory(lane: Lane, ageMs: number, limit = 10_000): Promise<number> {
  const dropped = Number((await lane.run(DROP_PARTITIONS, [ageMs]))[0]![0])
  const finished = await lane.run(PRUNE_DEFAULT_ARCHIVE, [ageMs, limit])
  const attempts = await lane.run(PRUNE_DEFAULT_ATTEMPTS, [ageMs, limit])
  return dropped + finished.length + attempts.length
}
