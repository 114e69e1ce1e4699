/** Which workers run, and which ran: so that the history of a job names its worker, and idle workers are visible. */
import { checkInteger, checkMilliseconds } from '../core/check.ts'
import type { Lane } from '../db/lane.ts'
import type { Worker } from './job.ts'
import {
  BEAT,
  NOT_HANDLED,
  NOTE_DEATHS,
  PRUNE_ACTIONS,
  PRUNE_FLEET_EVENTS,
  PRUNE_WORKERS,
  REGISTER_WORKER,
  STOP_SILENT_CLAIMERS,
  UNHANDLED_KINDS,
  WORKER_DRAINS,
  WORKER_STOPPED,
} from './registry.sql.ts'

/** How its jobs are run: by a worker until it is stopped, by drain(), by runOnce(), or by the caller of claim(). */
export type WorkerMode = 'worker' | 'drain' | 'once' | 'by_hand'

/** What does not change while the process runs, but for the kinds and queues of claims by hand. */
export interface WorkerInfo {
  readonly version: string
  readonly mode: WorkerMode
  readonly host: string
  readonly pid: number
  readonly kinds: readonly string[]
  readonly queues: readonly string[]
  readonly memoryLimitBytes: number | null
  readonly drains: boolean
}

/** Of each queue, jobs completed and attempts failed a second, since the last beat. */
export type QueueRates = Readonly<Record<string, readonly [completed: number, failed: number]>>

/** How a worker is doing. Null: not known. */
export interface Vitals {
  /** Jobs that it has claimed and whose outcome is not known yet. */
  readonly held: number | null
  readonly running: number | null
  /** The longest delay of its event loop since the last beat, of two samples a second. */
  readonly eventLoopMs: number | null
  readonly memoryBytes: number | null
}

/** Registers the worker, or notes that it was seen just now. `returned`: it was noted as dead. */
export async function registerWorker(
  lane: Lane,
  worker: Worker,
  info: WorkerInfo,
): Promise<'joined' | 'returned' | 'known'> {
  const { version, mode, host, pid, kinds, queues, memoryLimitBytes, drains } = info
  const values = [worker.id, worker.label, version, mode, host, pid, kinds, queues, memoryLimitBytes, drains]
  const [row] = await lane.run<'outcome'>(REGISTER_WORKER, values)
  return row!.outcome as 'joined' | 'returned' | 'known'
}

/**
 * Notes that the worker was seen just now. Undefined: it is not registered, or was noted as dead. `silence`: another worker has not
 * been seen for three beats.
 */
export async function beat(
  lane: Lane,
  worker: Worker,
  vitals: Vitals,
  rates: QueueRates = {},
): Promise<{ silence: boolean } | undefined> {
  const { held, running, eventLoopMs, memoryBytes } = vitals
  const values = [worker.id, held, running, eventLoopMs, memoryBytes, JSON.stringify(rates)]
  const [row] = await lane.run<'silence'>(BEAT, values)
  return row && { silence: row.silence === 't' }
}

export async function workerDrains(lane: Lane, worker: Worker): Promise<void> {
  await lane.run(WORKER_DRAINS, [worker.id])
}

export async function workerStopped(lane: Lane, worker: Worker): Promise<void> {
  await lane.run(WORKER_STOPPED, [worker.id])
}

export interface DeadWorker {
  readonly workerId: string
  readonly label: string
  /** Since it was last seen, by the clock of the database. */
  readonly silentMs: number
  /** Jobs that it had claimed when it was last seen, and those of them that ran. Null: it has sent no beat. */
  readonly held: number | null
  readonly running: number | null
}

/** Notes workers that have died since the last look, and returns them. `self` looks, so it lives. */
export async function noteDeaths(lane: Lane, self: Worker): Promise<DeadWorker[]> {
  type Column = 'worker_id' | 'label' | 'silent_ms' | 'held' | 'running'
  const rows = await lane.run<Column>(NOTE_DEATHS, [self.id])
  return rows.map((row) => ({
    workerId: row.worker_id!,
    label: row.label!,
    silentMs: Number(row.silent_ms),
    held: row.held === null ? null : Number(row.held),
    running: row.running === null ? null : Number(row.running),
  }))
}

/** Processes that claimed by hand, and have not for an hour, are shown as stopped. */
export async function stopSilentClaimers(lane: Lane): Promise<void> {
  await lane.run(STOP_SILENT_CLAIMERS, [])
}

/** Deletes workers that were not seen for `ageMs` and hold nothing. */
export async function pruneWorkers(lane: Lane, ageMs: number, limit = 1_000): Promise<number> {
  return (await lane.run(PRUNE_WORKERS, [checkMilliseconds('ageMs', ageMs), checkLimit(limit)])).length
}

/** Deletes operator actions older than `ageMs`. */
export async function pruneActions(lane: Lane, ageMs: number, limit = 1_000): Promise<number> {
  return (await lane.run(PRUNE_ACTIONS, [checkMilliseconds('ageMs', ageMs), checkLimit(limit)])).length
}

/** Deletes events of the fleet older than `ageMs`. */
export async function pruneFleetEvents(lane: Lane, ageMs: number, limit = 1_000): Promise<number> {
  return (await lane.run(PRUNE_FLEET_EVENTS, [checkMilliseconds('ageMs', ageMs), checkLimit(limit)])).length
}

function checkLimit(limit: number): number {
  return checkInteger('limit', limit, 1, 10_000)
}

/** Due jobs of a kind that no live worker handles. */
export interface UnhandledKind {
  readonly queue: string
  readonly kind: string
  readonly jobs: number
}

export async function unhandledKinds(
  lane: Lane,
  queues: readonly string[],
  dueForMs: number,
): Promise<UnhandledKind[]> {
  const rows = await lane.run<'queue' | 'kind' | 'jobs'>(UNHANDLED_KINDS, [queues, dueForMs])
  return rows.map((row) => ({ queue: row.queue!, kind: row.kind!, jobs: Number(row.jobs) }))
}

/** Which of these kinds no live worker handles. None, if no worker has ever run here. */
export async function notHandled(lane: Lane, kinds: readonly string[]): Promise<string[]> {
  return (await lane.run<'kind'>(NOT_HANDLED, [kinds])).map(({ kind }) => kind!)
}
