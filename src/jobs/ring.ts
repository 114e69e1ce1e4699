/** Seats on the ring: who claims the jobs of which buckets, in queues that are on the ring. */
import { bucketOf } from '../core/bucket.ts'
import type { Strategy } from '../core/strategy.ts'
import type { Lane } from '../db/lane.ts'
import { ringMap, type Seat } from '../ring/map.ts'
import type { Worker } from './job.ts'
import { BEAT, QUEUES_WITHOUT_SEATS, READ_RINGS, READ_SEATS } from './ring.sql.ts'

/** How each queue divides its buckets. Off: every worker claims from all of them. */
export type Strategies = Readonly<Record<string, Strategy | 'off'>>

/** The seats that were taken in an epoch, and how the queues were divided. */
export interface Epoch {
  readonly seats: readonly (Seat & { readonly queues: readonly string[] })[]
  readonly strategies: Strategies
}

export interface BeatRequest {
  readonly worker: Worker
  readonly queues: readonly string[]
  readonly weight: number
  readonly wants: number | undefined
  readonly leaseMs: number
  /** The epoch that the worker acknowledges. */
  readonly has: EpochId | undefined
  readonly leaves: boolean
}

/** The salt distinguishes two epochs of one number, before and after a failover. */
export interface EpochId {
  readonly epoch: number
  readonly salt: number
}

export interface RingState extends EpochId {
  /** Null: the seat that it wants is taken. Undefined: none of its queues is divided. */
  readonly seat: number | null | undefined
  readonly strategies: Strategies
  /** Other seats that have not acknowledged the epoch, and the last that each has. */
  readonly others: readonly { readonly seat: number; readonly epoch: number }[]
  /** The epoch, and those of `others`. */
  readonly epochs: Readonly<Record<string, Epoch>>
}

/** Renews the seat of a worker, takes one or gives it back. Undefined: no queue of the worker is or was on the ring. */
export async function beat(lane: Lane, request: BeatRequest): Promise<RingState | undefined> {
  const { worker, queues, weight, wants, leaseMs, has, leaves } = request
  const [row] = await lane.run<'answer'>(BEAT, [
    worker.id,
    worker.label,
    queues,
    weight,
    wants ?? null,
    leaseMs,
    has?.epoch ?? 0,
    has?.salt ?? 0,
    leaves,
  ])
  if (row!.answer === null) return undefined
  return { others: [], epochs: {}, epoch: 0, salt: 0, ...JSON.parse(row!.answer) }
}

/** The seats that divide this queue in this epoch. */
export function seatsOf({ seats }: Epoch, queue: string): Seat[] {
  return seats.filter(({ queues }) => queues.includes(queue))
}

/** Of these queues, those that are or were on the ring; and whether their buckets have owners. */
export async function readRings(lane: Lane, queues: readonly string[]): Promise<Map<string, { hasOwners: boolean }>> {
  const rows = await lane.run<'queue' | 'strategy' | 'is_manned'>(READ_RINGS, [queues])
  return new Map(rows.map((row) => [row.queue!, { hasOwners: row.strategy !== 'off' && row.is_manned === 't' }]))
}

/** Queues on the ring in which jobs with keys wait, and for which no worker has a seat. */
export async function queuesWithoutSeats(lane: Lane): Promise<{ readonly queue: string; readonly epoch: number }[]> {
  const rows = await lane.run<'queue' | 'epoch'>(QUEUES_WITHOUT_SEATS, [])
  return rows.map(({ queue, epoch }) => ({ queue: queue!, epoch: Number(epoch ?? 0) }))
}

/** Who claims the jobs of a key. */
export interface Owner {
  readonly bucket: number
  readonly seat: number
  readonly workerId: string
  readonly label: string
}

/** Undefined: the queue is not on the ring, or no worker has a seat for it. */
export async function ownerOf(lane: Lane, queue: string, key: string): Promise<Owner | undefined> {
  const rows = await lane.run<'number' | 'weight' | 'worker_id' | 'label' | 'strategy'>(READ_SEATS, [queue])
  const taken = rows.filter(({ number }) => number !== null)
  const strategy = rows[0]?.strategy
  if (taken.length === 0 || strategy === 'off') return undefined
  const seats = taken.map(({ number, weight }) => ({ number: Number(number), weight: Number(weight) }))
  const bucket = bucketOf(key)
  const seat = ringMap(strategy as Strategy, seats)[bucket]!
  const { worker_id, label } = taken.find(({ number }) => Number(number) === seat)!
  return { bucket, seat, workerId: worker_id!, label: label! }
}
