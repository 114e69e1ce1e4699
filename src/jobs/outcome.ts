import { CENTURY_MS } from '../core/duration.ts'
import { describeError, type ErrorDescription } from '../core/error-description.ts'
import { safeText } from '../core/safe-text.ts'
import { encodeSafely } from '../core/storable.ts'
import type { Lane } from '../db/lane.ts'
import { checkId, idArray, numericArray } from '../db/parameters.ts'
import { type JobId, type Lease, leaseOf, type Worker } from './job.ts'
import { CANCEL_REQUESTS, FORGIVE, PROGRESS, RECORDED, SETTLE } from './outcome.sql.ts'

/** Of the reason of a cancellation. */
export const REASON_CHARS = 1_000

/** Why a worker buries a job. */
export type BuryReason = 'fatal' | 'invalid_input' | 'effect_unknown'

/**
 * fail: retry after the delay while attempts last. bury: a dead letter now. snooze: again after the delay, attempt
 * returned. release: as if never claimed. cancel: cancelled; the message of its error is kept as the reason.
 */
export type Settlement = Lease &
  (
    | { readonly verb: 'fail'; readonly error: unknown; readonly delayMs: number }
    | { readonly verb: 'bury'; readonly error: unknown; readonly reason: BuryReason }
    | { readonly verb: 'snooze'; readonly delayMs: number; readonly waitsFor?: readonly string[] | undefined }
    | { readonly verb: 'release' }
    | { readonly verb: 'cancel'; readonly error?: unknown }
  )

export type Settled = Lease & { readonly outcome: 'pending' | 'dead_letter' | 'cancelled' | 'refused' | 'busy' }

/** Ends claims that did not succeed. What was thrown is stored in a form that cannot be refused. */
export async function settle(lane: Lane, worker: Worker, items: readonly Settlement[]): Promise<Settled[]> {
  const { first, repeated } = onePerLease(items)
  const errors = first.map((item) => ('error' in item ? describeError(item.error) : undefined))
  const rows = await lane.run<'position' | 'outcome'>(SETTLE, [
    ...fences(first),
    first.map((item) => item.verb),
    numericArray(first.map((item) => ('delayMs' in item ? safeDelay(item.delayMs) : 0))),
    errors.map((error) => (error === undefined ? null : encodeSafely(error))),
    first.map((item, index) => reasonOf(item, errors[index])),
    worker.id,
    first.map((item) => ('waitsFor' in item && item.waitsFor !== undefined ? JSON.stringify(item.waitsFor) : null)),
  ])
  const settled = rows.map(({ position, outcome }) => toSettled(first[Number(position) - 1]!, outcome))
  return [...settled, ...repeated.map((item) => toSettled(item, 'refused'))]
}

function toSettled(lease: Lease, outcome: string | null): Settled {
  return { ...leaseOf(lease), outcome: outcome as Settled['outcome'] }
}

function reasonOf(item: Settlement, error: ErrorDescription | undefined): string | null {
  if (item.verb === 'bury') return safeReason(item.reason)
  return item.verb === 'cancel' && error !== undefined ? safeText(error.message, REASON_CHARS) : null
}

/**
 * A worker whose leases were swept is alive after all: gives back attempt and crash of each job that no worker has claimed
 * since. Returns which, in the order of the leases.
 */
export async function forgive(lane: Lane, leases: readonly Lease[]): Promise<boolean[]> {
  const rows = await lane.run<'position' | 'forgiven'>(FORGIVE, fences(leases))
  const answers: boolean[] = []
  for (const row of rows) answers[Number(row.position) - 1] = row.forgiven === 't'
  return answers
}

/** A note about a running job, for people to see. Busy: not written, the row is locked this moment. */
export async function progress(lane: Lane, lease: Lease, note: unknown): Promise<'noted' | 'refused' | 'busy'> {
  const [row] = await lane.run<'noted' | 'held'>(PROGRESS, [...fence(lease), encodeSafely(note)])
  if (row!.noted === 't') return 'noted'
  return row!.held === 't' ? 'busy' : 'refused'
}

/** Of these running jobs, those whose cancellation was requested. */
export async function cancelRequests(lane: Lane, leases: readonly Lease[]): Promise<JobId[]> {
  return (await lane.run<'id'>(CANCEL_REQUESTS, fences(leases))).map(({ id }) => id as JobId)
}

/**
 * What ended a claim whose outcome was sent but whose reply was lost.
 * held: nothing was recorded, send it again. completed, dead_letter, failed, released, snoozed: by this claim's own outcome.
 * cancelled: by it, or by the sweep. crashed, lease_expired: the sweep took the job back, or made it a dead letter.
 * superseded: the job moved on, and this claim left no record. unknown: there is no such job, which is what a completion
 * that is not kept leaves behind.
 */
export type Recorded =
  | 'completed'
  | 'cancelled'
  | 'dead_letter'
  | 'lease_expired'
  | 'failed'
  | 'released'
  | 'snoozed'
  | 'crashed'
  | 'superseded'
  | 'held'
  | 'unknown'

/** What an outcome leaves on record. A job that was buried and redriven since shows the failed attempt. */
const LEAVES: Readonly<Record<string, readonly Recorded[]>> = {
  complete: ['completed'],
  fail: ['failed', 'dead_letter', 'cancelled'],
  bury: ['dead_letter', 'failed'],
  snooze: ['snoozed', 'cancelled'],
  release: ['released', 'cancelled'],
  cancel: ['cancelled'],
}

/** Whether an outcome that was sent before, and refused now, was recorded the first time. */
export function wasRecorded(verb: string, found: Recorded | undefined): boolean {
  return found !== undefined && (LEAVES[verb]?.includes(found) ?? false)
}

/** Returns in the order of the leases. */
export async function recorded(lane: Lane, leases: readonly Lease[]): Promise<Recorded[]> {
  const rows = await lane.run<'position' | 'recorded'>(RECORDED, fences(leases))
  const answers: Recorded[] = []
  for (const row of rows) answers[Number(row.position) - 1] = row.recorded as Recorded
  return answers
}

// One claim has one outcome: of two in a batch the first counts and the second is refused, as it would be a batch later.
export function onePerLease<Item extends Lease>(items: readonly Item[]): { first: readonly Item[]; repeated: Item[] } {
  if (new Set(items.map(({ jobId }) => jobId)).size === items.length) return { first: items, repeated: [] }
  const seen = new Set<string>()
  const first: Item[] = []
  const repeated: Item[] = []
  for (const item of items) {
    const key = `${item.jobId}/${item.claimId}`
    if (seen.has(key)) repeated.push(item)
    else first.push(item)
    seen.add(key)
  }
  return { first, repeated }
}

/** What every write about a claimed job names: the job and the claim. */
export function fence({ jobId, claimId }: Pick<Lease, 'jobId' | 'claimId'>): [string, string] {
  return [checkId('jobId', jobId), checkId('claimId', claimId)]
}

export function fences(leases: readonly Lease[]): [string, string] {
  const jobIds = leases.map((lease) => lease.jobId)
  // Jobs of one claim follow each other: what was checked once need not be checked again.
  const claimIds = leases.map(({ claimId }, index) =>
    claimId === leases[index - 1]?.claimId ? claimId : checkId('claimId', claimId),
  )
  return [idArray('jobId', jobIds), numericArray(claimIds)]
}

// Backoffs and reasons come from user code while a failure is being recorded, and recording must not fail.
export function safeDelay(delayMs: number): number {
  return typeof delayMs === 'number' && delayMs > 0 ? Math.min(delayMs, CENTURY_MS) : 0
}

function safeReason(reason: string): string {
  return reason === 'invalid_input' || reason === 'effect_unknown' ? reason : 'fatal'
}
