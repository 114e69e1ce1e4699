/** Duties that keep the tables in order. Each is one bounded statement, safe to run by several workers at once. */
import { checkInteger, checkMilliseconds } from '../core/check.ts'
import type { ErrorDescription } from '../core/error-description.ts'
import { SchemaError } from '../core/errors.ts'
import type { Lane } from '../db/lane.ts'
import { checkLease, idArray } from '../db/parameters.ts'
import { isAboutTheData } from '../db/refusal.ts'
import {
  BURIED,
  BURIED_LATELY,
  DROP_PARTITIONS,
  DROP_PARTITIONS_PAST,
  EXPIRE,
  LOOK_BEFORE_SWEEP,
  MAKE_PARTITIONS,
  MAKE_PARTITIONS_AHEAD,
  POSTPONE_CLAIM,
  PRUNE_DEAD_LETTERS,
  PRUNE_DEFAULT_ARCHIVE,
  PRUNE_DEFAULT_ATTEMPTS,
  PRUNE_KEYS,
  RESERVE_PAGES,
  SWEEP,
} from './housekeeping.sql.ts'
import type { ClaimId, JobId, Lease } from './job.ts'

// A statement that takes longer than a user's statement_timeout would be retried for ever.
const JOBS_PER_SWEEP = 20_000

export interface Swept {
  /** Claims dealt with. Call again until there are none. */
  readonly claims: number
  readonly jobs: readonly (Lease & { readonly outcome: 'pending' | 'dead_letter' | 'cancelled' })[]
}

/**
 * Reclaims the jobs of every claim whose lease has expired. A claim that the database refuses to sweep, for what is in it,
 * is swept alone, put off for a minute and reported by the error, so that the others are swept.
 */
export async function sweep(lane: Lane, limit = 500, heedsHold = false): Promise<Swept> {
  try {
    return await sweepAll(lane, limit, heedsHold)
  } catch (error) {
    if (!isAboutTheData(error)) throw error
    if (limit > 1) return sweep(lane, 1, heedsHold)
    await lane.run(POSTPONE_CLAIM, [])
    throw error
  }
}

async function sweepAll(lane: Lane, limit: number, heedsHold: boolean): Promise<Swept> {
  const values = [checkLimit(limit), JOBS_PER_SWEEP, heedsHold]
  const rows = await lane.run<'claim' | 'id' | 'lease_generation' | 'next'>(SWEEP, values)
  const jobs = rows.filter(({ id }) => id !== null)
  return {
    claims: rows.length - jobs.length,
    jobs: jobs.map((row) => ({
      jobId: row.id as JobId,
      claimId: row.claim as ClaimId,
      generation: Number(row.lease_generation),
      outcome: row.next as 'pending' | 'dead_letter' | 'cancelled',
    })),
  }
}

/**
 * Whether any lease has expired, and whether the database was away. If it was, workers that live need time to come back: for one
 * lease, a sweep that heeds the hold takes only what had expired before (decisions/0030). `gapMs`: no look for that long means
 * that it was away.
 */
export async function lookBeforeSweep(
  lane: Lane,
  gapMs: number,
  leaseMs: number,
): Promise<{ wasAway: boolean; anyExpired: boolean }> {
  const values = [checkMilliseconds('gapMs', gapMs), checkLease(leaseMs)]
  const [row] = await lane.run<'away' | 'expired'>(LOOK_BEFORE_SWEEP, values)
  return { wasAway: row!.away === 't', anyExpired: row!.expired === 't' }
}

export interface Buried {
  readonly jobId: JobId
  readonly kind: string
  readonly queue: string
  readonly partitionKey: string | null
  readonly generation: number
  readonly attempt: number
  readonly reason: 'lease_expired' | 'expired'
  /** That of its last failed attempt. */
  readonly error: ErrorDescription | undefined
}

/** What to announce of jobs that housekeeping has buried. */
export async function buried(lane: Lane, jobIds: readonly JobId[]): Promise<Buried[]> {
  if (jobIds.length === 0) return []
  const rows = await lane.run<
    'id' | 'kind' | 'queue' | 'partition_key' | 'lease_generation' | 'attempts' | 'reason' | 'error'
  >(BURIED, [idArray('jobId', jobIds)])
  return rows.map((row) => ({
    jobId: row.id as JobId,
    kind: row.kind!,
    queue: row.queue!,
    partitionKey: row.partition_key,
    generation: Number(row.lease_generation),
    attempt: Number(row.attempts),
    reason: row.reason as Buried['reason'],
    error: row.error === null ? undefined : JSON.parse(row.error),
  }))
}

/** What sweeps and expiry have buried in the last `ms`, in whichever process. */
export async function buriedLately(lane: Lane, ms: number): Promise<Pick<Buried, 'jobId' | 'generation'>[]> {
  const rows = await lane.run<'id' | 'lease_generation'>(BURIED_LATELY, [ms])
  return rows.map((row) => ({ jobId: row.id as JobId, generation: Number(row.lease_generation) }))
}

/** Pending jobs past their expiry become dead letters. */
export async function expire(lane: Lane, limit = 1_000): Promise<JobId[]> {
  const [row] = await lane.run<'ids'>(EXPIRE, [checkLimit(limit)])
  return row!.ids === null ? [] : (row!.ids.slice(1, -1).split(',') as JobId[])
}

/** Deletes dead letters older than `ageMs`. */
export async function pruneDeadLetters(lane: Lane, ageMs: number, limit = 1_000): Promise<number> {
  return (await lane.run(PRUNE_DEAD_LETTERS, [checkMilliseconds('ageMs', ageMs), checkLimit(limit)])).length
}

/** Looks at up to `limit` idempotency keys that are due and deletes those kept long enough. Call again while `more`. */
export async function pruneKeys(lane: Lane, limit = 1_000): Promise<{ pruned: number; more: boolean }> {
  const [row] = await lane.run<'pruned' | 'looked'>(PRUNE_KEYS, [checkLimit(limit)])
  return { pruned: Number(row!.pruned), more: Number(row!.looked) >= limit }
}

/**
 * Makes the daily partitions of today and the days ahead that are missing, and returns how many. Undefined: this role does
 * not own the tables, and nothing was done.
 */
export async function makePartitions(lane: Lane, daysAhead = 7): Promise<number | undefined> {
  const [row] = await lane.run<'made'>(MAKE_PARTITIONS, [checkInteger('daysAhead', daysAhead, 0, 366)])
  return row!.made === null ? undefined : Number(row!.made)
}

/**
 * Drops the oldest partition of finished jobs past their time, and the oldest of attempts older than `attemptsMs`. Call
 * again until there are none. Undefined: this role does not own the tables, and nothing was done.
 */
export async function dropPartitions(lane: Lane, attemptsMs: number): Promise<number | undefined> {
  const [row] = await lane.run<'dropped'>(DROP_PARTITIONS, [checkMilliseconds('attemptsMs', attemptsMs)])
  return row!.dropped === null ? undefined : Number(row!.dropped)
}

/** Deletes finished jobs past their time from the default partition. */
export async function pruneFinished(lane: Lane, limit = 10_000): Promise<number> {
  return (await lane.run(PRUNE_DEFAULT_ARCHIVE, [checkLimit(limit)])).length
}

/** Deletes attempts older than `ageMs` from the default partition. */
export async function pruneAttempts(lane: Lane, ageMs: number, limit = 10_000): Promise<number> {
  return (await lane.run(PRUNE_DEFAULT_ATTEMPTS, [checkMilliseconds('ageMs', ageMs), checkLimit(limit)])).length
}

export interface Maintained {
  /** Partitions. */
  readonly made: number
  readonly dropped: number
}

/**
 * What only the owner of the tables can do: makes the partitions of the days ahead, drops those past their time, and
 * reserves pages that a VACUUM FULL or a restore gave back. A partition that is locked at the moment is left to the next
 * call. Throws SchemaError for another role.
 */
export async function maintain(lane: Lane): Promise<Maintained> {
  const [pages] = await lane.run<'reserved'>(RESERVE_PAGES, [])
  if (pages!.reserved === null) {
    throw new SchemaError(`maintain() must be called by the owner of the tables in schema "${lane.schema}".`)
  }
  const repeat = async (statement: string): Promise<number> => {
    for (let sum = 0; ; ) {
      const [row] = await lane.run<'count'>(statement, [])
      if (Number(row!.count) === 0) return sum
      sum += Number(row!.count)
    }
  }
  return { made: await repeat(MAKE_PARTITIONS_AHEAD), dropped: await repeat(DROP_PARTITIONS_PAST) }
}

function checkLimit(limit: number): number {
  return checkInteger('limit', limit, 1, 10_000)
}
