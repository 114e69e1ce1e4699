import { randomBytes } from 'node:crypto'
import { checkInteger } from '../core/check.ts'
import type { Lane, Row } from '../db/lane.ts'
import { checkId, checkLease, idArray, numericArray } from '../db/parameters.ts'
import { CLAIM, CLOSE, COUNT_SUSPECTS, RELEASE_CLAIM, RENEW } from './claim.sql.ts'
import { type ClaimColumn, type Claimed, toClaimed } from './claimed.ts'
import type { ClaimedJob, ClaimId, JobId, Lease, Worker } from './job.ts'
import { everyStart, type Look, type ScanStart, type Walk } from './scan-walk.ts'

/** A claim is swept in one statement, which must stay short. */
export const MAX_CLAIM = 1_000

/** Suspects are claimed this many at a time after their first crash, alone after any later one. */
const COMPANY_AFTER_FIRST_CRASH = 16

export interface ClaimRequest {
  readonly claimId: ClaimId
  readonly worker: Worker
  /** Only kinds this worker can run. */
  readonly kinds: readonly string[]
  readonly limit: number
  readonly leaseMs: number
  /** From one queue and priority at most. Default: the limit. */
  readonly share?: number
  /** Jobs of one key of an ordered queue at most. Default: 1. */
  readonly runLength?: number
}

/** By queue: the buckets whose suspects may be claimed, a bit each of 1024. Missing: all. */
export type OwnedBuckets = ReadonlyMap<string, Uint8Array>

const ID_BYTES = 8
/** Random bytes for this many ids are drawn at a time: a draw costs as much as the rest of a small claim's arguments. */
const IDS_AHEAD = 64
let random = Buffer.alloc(0)
let used = 0

/** 63 random bits: no two claims share one, and the worker knows it before the database does. */
export function newClaimId(): ClaimId {
  if (used === random.length) {
    random = randomBytes(ID_BYTES * IDS_AHEAD)
    used = 0
  }
  const bits = random.readBigUInt64BE(used)
  used += ID_BYTES
  return (bits >> 1n).toString() as ClaimId
}

/** Claims up to `limit` jobs, in the order of the walk; returns them by priority and age. */
export async function claim(lane: Lane, request: ClaimRequest, walk: Walk): Promise<ClaimedJob[]> {
  return (await claimAndMeasure(lane, request, walk)).jobs
}

export async function claimAndMeasure(lane: Lane, request: ClaimRequest, walk: Walk): Promise<Claimed> {
  return claimWithCrashes(lane, request, walk, 0, 0)
}

/**
 * Claims jobs whose lease has run out before. A worker that holds some should hold nothing else, so that a job that kills
 * its process takes as few others along as possible: those with one crash a few together, the rest alone. Chance decides
 * which come first, and which queue, so that none starves another.
 */
export async function claimSuspects(
  lane: Lane,
  request: ClaimRequest,
  queues: readonly string[],
  owned?: OwnedBuckets,
): Promise<ClaimedJob[]> {
  const spots = everyStart(shuffled(queues))
  const buckets = owned && spots.map(({ queue }) => bytesOf(owned.get(queue)))
  const together = { ...request, limit: Math.min(request.limit, COMPANY_AFTER_FIRST_CRASH) }
  const few = () => claimWithCrashes(lane, together, spots, 1, 1, buckets)
  const alone = () => claimWithCrashes(lane, { ...request, limit: 1 }, spots, 2, 32_767, buckets)
  const [first, second] = Math.random() < 0.5 ? [few, alone] : [alone, few]
  const { jobs } = await first()
  return jobs.length > 0 ? jobs : (await second()).jobs
}

function shuffled(queues: readonly string[]): string[] {
  return queues
    .map((queue) => ({ queue, at: Math.random() }))
    .sort((one, other) => one.at - other.at)
    .map(({ queue }) => queue)
}

function bytesOf(buckets: Uint8Array | undefined): Buffer | null {
  return buckets === undefined ? null : Buffer.from(buckets)
}

/** How many jobs wait whose lease has expired before, as far as it matters. */
export async function countSuspects(
  lane: Lane,
  queues: readonly string[],
  kinds: readonly string[],
  atMost = 1_000,
  owned?: OwnedBuckets,
): Promise<number> {
  const [row] = await lane.run<'count'>(COUNT_SUSPECTS, [
    queues,
    kinds,
    checkInteger('atMost', atMost, 1, 10_000),
    owned === undefined ? null : queues.map((queue) => bytesOf(owned.get(queue))),
  ])
  return Number(row!.count)
}

/** Whether there is anything for `claimSuspects` to claim. */
export async function suspectsWait(
  lane: Lane,
  queues: readonly string[],
  kinds: readonly string[],
  owned?: OwnedBuckets,
): Promise<boolean> {
  return (await countSuspects(lane, queues, kinds, 1, owned)) > 0
}

async function claimWithCrashes(
  lane: Lane,
  request: ClaimRequest,
  walk: Walk,
  crashesFrom: number,
  crashesTo: number,
  buckets?: readonly (Buffer | null)[],
): Promise<Claimed> {
  const [claimId, ...asked] = claimArguments(request, walk)
  const rows = await lane.run<ClaimColumn>(CLAIM, [
    claimId,
    request.worker.id,
    ...asked,
    crashesFrom,
    crashesTo,
    buckets ?? null,
    ...shareArguments(request, walk),
  ])
  return toClaimed(request.claimId, request.kinds, rows)
}

/** The last arguments of every claim. */
export function shareArguments({ share, limit, runLength = 1 }: ClaimRequest, walk: Walk): unknown[] {
  return [share ?? limit, checkInteger('runLength', runLength, 1, MAX_CLAIM), linesOf(walk)]
}

/** Null: all are 0, as they are where no queue is on the ring. */
function linesOf(walk: Walk): string | null {
  const lines = 'queues' in walk ? walk.lines : walk.map(({ line }) => line)
  return lines === undefined || lines.every((line) => line === 0) ? null : numericArray(lines)
}

/** The first arguments of every claim. */
export function claimArguments({ claimId, leaseMs, limit, kinds }: ClaimRequest, walk: Walk): unknown[] {
  return [
    checkId('claimId', claimId),
    checkLease(leaseMs),
    checkInteger('limit', limit, 1, MAX_CLAIM),
    kinds,
    ...('queues' in walk ? lookArguments(walk) : spotArguments(walk)),
  ]
}

/** Queues, priorities, from when, from which id, and how long due: from and to. */
function spotArguments(spots: readonly ScanStart[]): unknown[] {
  return [
    spots.map((spot) => spot.queue),
    numericArray(spots.map((spot) => spot.priority)),
    spots.map((spot) => spot.fromAt),
    numericArray(spots.map((spot) => spot.fromId)),
    null,
    null,
  ]
}

function lookArguments({ queues, dueForMs }: Look): unknown[] {
  return [queues, null, null, null, dueForMs?.from ?? null, dueForMs?.to ?? null]
}

/** Extends the leases still held and returns which are lost. One row per claim is written, however many jobs it covers. */
export async function renew(
  lane: Lane,
  worker: Worker,
  claimIds: readonly ClaimId[],
  leaseMs: number,
): Promise<{ held: ClaimId[]; lost: ClaimId[] }> {
  const rows = await lane.run<'id'>(RENEW, [idArray('claimIds', claimIds), worker.id, checkLease(leaseMs)])
  const renewed = new Set(rows.map(({ id }) => id))
  return { held: claimIds.filter((id) => renewed.has(id)), lost: claimIds.filter((id) => !renewed.has(id)) }
}

/** Removes claims of which every job has its outcome. */
export async function closeClaims(lane: Lane, worker: Worker, claimIds: readonly ClaimId[]): Promise<void> {
  await lane.run(CLOSE, [idArray('claimIds', claimIds), worker.id])
}

/** Releases all that a claim took, when its reply was lost and nothing of it can have started. */
export async function releaseClaim(lane: Lane, worker: Worker, claimId: ClaimId): Promise<Lease[]> {
  const rows = await release(lane, worker, claimId)
  return rows.map((row) => ({ jobId: row.id as JobId, claimId, generation: Number(row.lease_generation) }))
}

/** The same. Returns whether that was all: not if the claim is not there, nor if another transaction has locked one of its jobs. */
export async function releaseWhole(lane: Lane, worker: Worker, claimId: ClaimId): Promise<boolean> {
  const [row] = await release(lane, worker, claimId)
  return row?.closed === 't'
}

function release(
  lane: Lane,
  worker: Worker,
  claimId: ClaimId,
): Promise<readonly Row<'id' | 'lease_generation' | 'closed'>[]> {
  return lane.run(RELEASE_CLAIM, [checkId('claimId', claimId), worker.id])
}
