/** Which workers run, and which ran: so that the history of a job names its worker, and idle workers are visible. */
import { checkInteger, checkMilliseconds } from '../core/check.ts'
import type { Lane } from '../db/lane.ts'
import type { Worker } from './job.ts'
import { PRUNE_ACTIONS, PRUNE_WORKERS, REGISTER_WORKER, UNHANDLED_KINDS, WORKER_STOPPED } from './registry.sql.ts'

export interface WorkerInfo {
  readonly version: string
  readonly kinds: readonly string[]
  readonly queues: readonly string[]
}

/** Registers the worker, or notes that it was seen just now. */
export async function registerWorker(lane: Lane, worker: Worker, info: WorkerInfo): Promise<void> {
  await lane.run(REGISTER_WORKER, [worker.id, worker.label, info.version, info.kinds, info.queues])
}

export async function workerStopped(lane: Lane, worker: Worker): Promise<void> {
  await lane.run(WORKER_STOPPED, [worker.id])
}

/** Deletes workers that were not seen for `ageMs` and hold nothing. */
export async function pruneWorkers(lane: Lane, ageMs: number, limit = 1_000): Promise<number> {
  return (await lane.run(PRUNE_WORKERS, [checkMilliseconds('ageMs', ageMs), checkLimit(limit)])).length
}

/** Deletes operator actions older than `ageMs`. */
export async function pruneActions(lane: Lane, ageMs: number, limit = 1_000): Promise<number> {
  return (await lane.run(PRUNE_ACTIONS, [checkMilliseconds('ageMs', ageMs), checkLimit(limit)])).length
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
