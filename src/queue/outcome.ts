import { checkInteger } from '../core/check.ts'
import { CENTURY_MS } from '../core/duration.ts'
import { InvalidOptionError, LeaseLostError } from '../core/errors.ts'
import { describeError, encodeSafely } from '../core/storable.ts'
import { settlingConflicts } from '../db/conflict.ts'
import type { Lane, Row } from '../db/lane.ts'
import type { JobId, Lease, Worker } from './job.ts'
import {
  BE_IN_A_TRANSACTION,
  CANCEL_REQUESTS,
  COMPLETE,
  COMPLETE_AND_FORGET,
  HOLD,
  PROGRESS,
  RECORDED,
  SETTLE,
} from './outcome.sql.ts'
import { checkId, idArray, numericArray } from './parameters.ts'

/** How long a finished job is kept when nobody says otherwise; the default of leasehold.archive.forget_at, too. */
export const KEEP_MS = 7 * 86_400_000

export interface Completion extends Lease {
  readonly result?: unknown
  /** The result as encodeSafely made it, if that was done already. */
  readonly resultJson?: string
  /** Keep the finished job this long. False: not at all, unless it has an idempotency key. Default: 7 days. */
  readonly keepMs?: number | false
}

/** What was not written. refused: the lease is gone. busy: still ours, but locked by somebody this moment; send it again. */
export interface NotWritten {
  readonly refused: Lease[]
  readonly busy: Lease[]
}

/** Ends jobs with success. A result that JSON cannot hold is stored repaired rather than lost. */
export async function complete(lane: Lane, worker: Worker, items: readonly Completion[]): Promise<NotWritten> {
  const { first, repeated } = onePerLease(items)
  const forgotten = first.filter(({ keepMs }) => keepMs === false)
  if (forgotten.length === 0) return notWritten(await completeAndKeep(lane, worker, first), repeated)
  const rows = await lane.run(COMPLETE_AND_FORGET, fences(forgotten))
  const isKeyed = new Set(rows.filter((row) => row[3] === 't').map(([id]) => id))
  const left = first.filter(({ jobId, keepMs }) => keepMs !== false || isKeyed.has(jobId))
  const others = rows.filter((row) => row[3] !== 't')
  if (left.length > 0) others.push(...(await completeAndKeep(lane, worker, left)))
  return notWritten(others, repeated)
}

function completeAndKeep(lane: Lane, worker: Worker, items: readonly Completion[]): Promise<readonly Row[]> {
  return lane.run(COMPLETE, [
    ...fences(items),
    items.map((item) => item.resultJson ?? (item.result === undefined ? null : encodeSafely(item.result))),
    numericArray(items.map((item) => (item.keepMs === false ? 'null' : safeDelay(item.keepMs ?? KEEP_MS)))),
    worker.id,
  ])
}

/**
 * Ends one job inside the caller's transaction: the job is done exactly when that transaction commits. Throws
 * LeaseLostError when the lease is gone, so that the transaction rolls back; TransactionConflictError when Postgres gave it up,
 * as it may under a stricter level than READ COMMITTED, or when two that hold the lease both complete the job.
 */
export async function completeWithin(tx: Lane, worker: Worker, item: Completion): Promise<void> {
  await beInATransaction(tx)
  await settlingConflicts(tx.standsAlone, () => endWithin(tx, worker, item))
}

async function endWithin(tx: Lane, worker: Worker, item: Completion): Promise<void> {
  const { busy } = await ended(tx, worker, item)
  if (busy.length === 0) return
  // A sweep or a cancel is looking at the row. They take milliseconds: wait, and then we know.
  await tx.run(HOLD, [item.jobId, item.generation])
  if ((await ended(tx, worker, item)).busy.length > 0) throw new LeaseLostError(item)
}

/** What is done in the caller's transaction would mean nothing without one. */
export async function beInATransaction(tx: Lane): Promise<void> {
  await tx.run(BE_IN_A_TRANSACTION, []).catch(refuseWithoutTransaction)
}

export function refuseWithoutTransaction(error: { code?: unknown }): never {
  const noTransaction = error.code === '25P01'
  throw noTransaction ? new InvalidOptionError('tx', 'no transaction is open on it', { cause: error }) : error
}

async function ended(tx: Lane, worker: Worker, item: Completion): Promise<NotWritten> {
  const answer = await complete(tx, worker, [item])
  if (answer.refused.length > 0) throw new LeaseLostError(item)
  return answer
}

/** Why a worker buries a job. */
export type BuryReason = 'fatal' | 'invalid_input' | 'effect_unknown'

/**
 * fail: try again after the delay while attempts last. bury: a dead letter now. snooze: again after the delay, attempt
 * handed back. release: as if never claimed. cancel: cancelled.
 */
export type Settlement = Lease &
  (
    | { readonly verb: 'fail'; readonly error: unknown; readonly delayMs: number }
    | { readonly verb: 'bury'; readonly error: unknown; readonly reason: BuryReason }
    | { readonly verb: 'snooze'; readonly delayMs: number }
    | { readonly verb: 'release' }
    | { readonly verb: 'cancel' }
  )

export type Settled = Lease & { readonly outcome: 'pending' | 'dead_letter' | 'cancelled' | 'refused' | 'busy' }

/** Ends claims that did not succeed. Whatever was thrown is stored in a form that cannot be refused. */
export async function settle(lane: Lane, worker: Worker, items: readonly Settlement[]): Promise<Settled[]> {
  const { first, repeated } = onePerLease(items)
  const rows = await lane.run(SETTLE, [
    ...fences(first),
    first.map((item) => item.verb),
    numericArray(first.map((item) => ('delayMs' in item ? safeDelay(item.delayMs) : 0))),
    first.map((item) => ('error' in item ? encodeSafely(describeError(item.error)) : null)),
    first.map((item) => (item.verb === 'bury' ? safeReason(item.reason) : null)),
    worker.id,
  ])
  const settled = rows.map((row) => ({ ...toLease(row), outcome: row[2] as Settled['outcome'] }))
  return [...settled, ...repeated.map(({ jobId, generation }) => ({ jobId, generation, outcome: 'refused' as const }))]
}

/** A note about a running job, for people to see. Busy: not written, the row is locked this moment. */
export async function progress(lane: Lane, lease: Lease, note: unknown): Promise<'noted' | 'refused' | 'busy'> {
  const [row] = await lane.run(PROGRESS, [
    checkId('jobId', lease.jobId),
    checkGeneration(lease.generation),
    encodeSafely(note),
  ])
  if (row![0] === 't') return 'noted'
  return row![1] === 't' ? 'busy' : 'refused'
}

/** Of these running jobs, those that somebody asked to cancel. */
export async function cancelRequests(lane: Lane, leases: readonly Lease[]): Promise<Lease[]> {
  return (await lane.run(CANCEL_REQUESTS, fences(leases))).map(toLease)
}

/**
 * What became of claims whose outcome was sent but whose reply was lost. held: nothing was recorded, send it again.
 * returned: the claim ended without a final outcome. superseded: somebody claimed the job after us. unknown: the job is
 * gone without a trace, which is what a completion that is not kept leaves behind.
 */
export type Recorded = 'completed' | 'cancelled' | 'dead_letter' | 'returned' | 'superseded' | 'held' | 'unknown'

export async function recorded(
  lane: Lane,
  leases: readonly Lease[],
): Promise<(Lease & { readonly recorded: Recorded })[]> {
  const rows = await lane.run(RECORDED, fences(leases))
  return rows.map((row) => ({ ...toLease(row), recorded: row[2] as Recorded }))
}

// One claim has one outcome: of two in a batch the first counts and the second is refused, as it would be a batch later.
function onePerLease<Item extends Lease>(items: readonly Item[]): { first: readonly Item[]; repeated: Item[] } {
  if (new Set(items.map(({ jobId }) => jobId)).size === items.length) return { first: items, repeated: [] }
  const seen = new Set<string>()
  const first: Item[] = []
  const repeated: Item[] = []
  for (const item of items) {
    const fence = `${item.jobId}/${item.generation}`
    if (seen.has(fence)) repeated.push(item)
    else first.push(item)
    seen.add(fence)
  }
  return { first, repeated }
}

function fences(leases: readonly Lease[]): [string, string] {
  const jobIds = leases.map((lease) => lease.jobId)
  return [idArray('jobId', jobIds), numericArray(leases.map((lease) => checkGeneration(lease.generation)))]
}

export function checkGeneration(generation: number): number {
  return checkInteger('generation', generation, 0, Number.MAX_SAFE_INTEGER)
}

// Backoffs and reasons come from user code while a failure is being recorded, and recording must not fail.
function safeDelay(delayMs: number): number {
  return typeof delayMs === 'number' && delayMs > 0 ? Math.min(delayMs, CENTURY_MS) : 0
}

function safeReason(reason: string): string {
  return reason === 'invalid_input' || reason === 'effect_unknown' ? reason : 'fatal'
}

function toLease(row: Row): Lease {
  return { jobId: row[0] as JobId, generation: Number(row[1]) }
}

function notWritten(rows: readonly Row[], repeated: readonly Lease[]): NotWritten {
  const again = repeated.map(({ jobId, generation }) => ({ jobId, generation }))
  return {
    refused: [...rows.filter((row) => row[2] === 'f').map(toLease), ...again],
    busy: rows.filter((row) => row[2] === 't').map(toLease),
  }
}
