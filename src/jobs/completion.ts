import { LeaseLostError } from '../core/errors.ts'
import { listIn } from '../core/lists.ts'
import { encodeSafely } from '../core/storable.ts'
import { settlingConflicts } from '../db/conflict.ts'
import type { Lane } from '../db/lane.ts'
import { idArray, numericArray } from '../db/parameters.ts'
import { refuseWithoutTransaction } from '../db/savepoint.ts'
import { type ClaimRequest, claimArguments, shareArguments } from './claim.ts'
import { type ClaimColumn, type Claimed, toClaimed } from './claimed.ts'
import { type Lease, leaseOf, type Worker } from './job.ts'
import {
  BE_IN_A_TRANSACTION,
  COMPLETE,
  COMPLETE_IN_ORDER,
  COMPLETE_MANY,
  COMPLETE_WITHIN,
  HOLD,
  TURN,
  TURN_IN_ORDER,
} from './outcome.sql.ts'
import { fences, recorded, safeDelay } from './outcome.ts'
import type { Walk } from './scan-walk.ts'

/** How long a finished job is kept by default; leasehold.archive.forget_at has the same default. */
export const KEEP_MS = 7 * 86_400_000

/** From so many on it is cheaper not to look at each job by itself. */
export const MANY = 50

export interface Completion extends Lease {
  readonly result?: unknown
  /** The result as encodeSafely made it, if that was done already. */
  readonly resultJson?: string | undefined
  /** Keep the finished job this long. False: not at all, unless it has an idempotency key. Default: 7 days. */
  readonly keepMs?: number | false | undefined
  /**
   * Of an ordered queue, whose next job is let in: the place of the first job of its run. Null: the queue is not ordered. Undefined:
   * not known, and the statement looks.
   */
  readonly runFrom?: string | null | undefined
}

/** What was not written. refused: the lease is gone. busy: still held, but locked by another transaction; send it again. */
export interface NotWritten {
  readonly refused: Lease[]
  readonly busy: Lease[]
  /** Jobs of the same keys can be claimed now, or may. */
  readonly letIn?: true
}

/**
 * Ends jobs with success. A result that JSON cannot hold is stored repaired rather than lost. What was written is added to `written`
 * at once, and so is known if a later statement fails.
 */
export async function complete(
  lane: Lane,
  worker: Worker,
  items: readonly Completion[],
  written: Lease[] = [],
): Promise<NotWritten> {
  const left = items.length >= MANY ? await completeMany(lane, worker, items, written) : items
  const refused: Lease[] = []
  const busy: Lease[] = []
  let letIn = left.length < items.length && items.some(isOrdered)
  for (let at = 0; at < left.length; at += MANY) {
    const answer = await completeFew(lane, worker, left.slice(at, at + MANY), written)
    refused.push(...answer.refused)
    busy.push(...answer.busy)
    letIn ||= answer.letIn === true
  }
  return letIn ? { refused, busy, letIn } : { refused, busy }
}

async function completeFew(
  lane: Lane,
  worker: Worker,
  items: readonly Completion[],
  written: Lease[],
): Promise<NotWritten> {
  const { first, others } = onePerJob(items)
  const completed = completeArguments(worker, first)
  if (!first.some(isOrdered)) {
    const [row] = await lane.run<'completed'>(COMPLETE, completed)
    return notWritten(lane, worker, first, row!.completed, others, written)
  }
  const [row] = await lane.run<'completed' | 'let_in'>(COMPLETE_IN_ORDER, [...completed, runsOf(first)])
  const answer = await notWritten(lane, worker, first, row!.completed, others, written)
  return Number(row!.let_in) > 0 ? { ...answer, letIn: true } : answer
}

/**
 * Those with a result go together, and those that are kept for the same time. Those of ordered queues go together, too, so that none
 * is recorded before another that ran earlier. Returns the ones that were not completed.
 */
async function completeMany(
  lane: Lane,
  worker: Worker,
  items: readonly Completion[],
  written: Lease[],
): Promise<Completion[]> {
  const left: Completion[] = []
  const groups = new Map<number | false | 'with results', Completion[]>()
  const isMixed = new Set(items.filter(isOrdered).map(groupOf)).size > 1
  for (const item of items) listIn(groups, isMixed && isOrdered(item) ? 'with results' : groupOf(item)).push(item)
  for (const [alike, group] of groups) {
    const isWritten = group.length >= MANY && (await completeGroup(lane, worker, group, alike))
    ;(isWritten ? written : left).push(...group)
  }
  return left
}

/** All of them, or none: false when one is locked, or not held any more. */
async function completeGroup(
  lane: Lane,
  worker: Worker,
  items: readonly Completion[],
  alike: number | false | 'with results',
): Promise<boolean> {
  const ofClaim = new Map<string, Completion[]>()
  for (const item of items) listIn(ofClaim, item.claimId).push(item)
  const byClaim = [...ofClaim.values()].flat()
  const jobIds = byClaim.map(({ jobId }) => jobId)
  const [, , results, keepMs] = alike === 'with results' ? completeArguments(worker, byClaim) : []
  const [row] = await lane.run<'done'>(COMPLETE_MANY, [
    idArray('jobId', jobIds),
    idArray('claimId', [...ofClaim.keys()]),
    numericArray([...ofClaim.values()].map(({ length }) => length)),
    worker.id,
    typeof alike === 'number' ? safeDelay(alike) : null,
    results ?? null,
    keepMs ?? null,
    runsOf(byClaim),
  ])
  return row!.done === 't'
}

function groupOf(item: Completion): number | false | 'with results' {
  return hasResult(item) ? 'with results' : (item.keepMs ?? KEEP_MS)
}

function hasResult({ result, resultJson }: Completion): boolean {
  return result !== undefined || resultJson !== undefined
}

/** What was not completed is locked, or not held any more. `others` are of jobs that were among those of the statement. */
async function notWritten(
  lane: Lane,
  worker: Worker,
  sent: readonly Completion[],
  completed: string | null,
  others: readonly Completion[],
  written: Lease[],
): Promise<NotWritten> {
  const done = new Set(completed?.slice(1, -1).split(','))
  const missed = done.size === sent.length ? [] : sent.filter(({ jobId }) => !done.has(jobId))
  written.push(...(missed.length === 0 ? sent : sent.filter(({ jobId }) => done.has(jobId))))
  const found = missed.length === 0 ? [] : await recorded(lane, missed)
  const refused = missed.filter((_, index) => found[index] !== 'held').map(leaseOf)
  const busy = missed.filter((_, index) => found[index] === 'held').map(leaseOf)
  if (others.length === 0) return { refused, busy }
  const more = await complete(lane, worker, others, written)
  return { refused: [...refused, ...more.refused], busy: [...busy, ...more.busy] }
}

/** A statement names a job once. Of two outcomes of one job, under one claim or two, the second is sent afterwards. */
function onePerJob(items: readonly Completion[]): { first: readonly Completion[]; others: readonly Completion[] } {
  const seen = new Set<string>()
  const first: Completion[] = []
  const others: Completion[] = []
  for (const item of items) {
    ;(seen.has(item.jobId) ? others : first).push(item)
    seen.add(item.jobId)
  }
  return { first, others }
}

function completeArguments(worker: Worker, items: readonly Completion[]): unknown[] {
  return [
    ...fences(items),
    items.map(({ result, resultJson }) => resultJson ?? (result === undefined ? null : encodeSafely(result))),
    numericArray(items.map(({ keepMs }) => (keepMs === false ? 'null' : safeDelay(keepMs ?? KEEP_MS)))),
    worker.id,
  ]
}

/** Or may be. */
function isOrdered({ runFrom }: Completion): boolean {
  return runFrom !== null
}

function runsOf(items: readonly Completion[]): string | null {
  if (!items.some(isOrdered)) return null
  return numericArray(items.map(({ runFrom }) => runFrom ?? 'null'))
}

/** Completes and claims in one statement: all of it happens, or nothing. */
export async function turn(
  lane: Lane,
  items: readonly Completion[],
  request: ClaimRequest,
  walk: Walk,
  written: Lease[] = [],
): Promise<{ readonly notWritten: Promise<NotWritten>; readonly claimed: Claimed }> {
  const { first, others } = onePerJob(items)
  const inOrder = first.some(isOrdered)
  const rows = await lane.run<ClaimColumn | 'completed'>(inOrder ? TURN_IN_ORDER : TURN, [
    ...completeArguments(request.worker, first),
    ...(inOrder ? [runsOf(first)] : []),
    ...claimArguments(request, walk),
    ...shareArguments(request, walk),
  ])
  return {
    // No letIn: the claim comes after the completions, and advance() has announced what they let in.
    notWritten: notWritten(lane, request.worker, first, rows[0]!.completed, others, written),
    claimed: toClaimed(request.claimId, request.kinds, rows),
  }
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
  await tx.run(HOLD, [item.jobId, item.claimId])
  if ((await ended(tx, worker, item)).busy.length > 0) throw new LeaseLostError(item)
}

/** What is done in the caller's transaction would mean nothing without one. */
export async function beInATransaction(tx: Lane): Promise<void> {
  await tx.run(BE_IN_A_TRANSACTION, []).catch(refuseWithoutTransaction)
}

async function ended(tx: Lane, worker: Worker, item: Completion): Promise<NotWritten> {
  const [row] = await tx.run<'completed'>(COMPLETE_WITHIN, [...completeArguments(worker, [item]), runsOf([item])])
  const answer = await notWritten(tx, worker, [item], row!.completed, [], [])
  if (answer.refused.length > 0) throw new LeaseLostError(item)
  return answer
}
