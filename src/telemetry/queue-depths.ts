/** What the endpoint reads from the database. */
import type { Lane } from '../db/lane.ts'
import { QUEUE_DEPTHS, SERVER_STATE, WORKER_COUNTS } from './queue-depths.sql.ts'

/** Queues in one answer, the first by name. Each is a label value, of which Prometheus keeps every one. */
export const MOST_QUEUES = 100
/** A queue is counted up to here. */
export const MOST_JOBS = 10_000
const MOST_WORKERS = 10_000

export interface QueueDepth {
  readonly queue: string
  readonly ready: number
  readonly scheduled: number
  readonly processing: number
  /** Since when the job that is due longest could have started. 0: none waits. */
  readonly oldestSeconds: number
  readonly deadLetters: number
}

type Column = 'queue' | 'ready' | 'scheduled' | 'processing' | 'oldest_seconds' | 'dead_letters'

export async function queueDepths(lane: Lane): Promise<QueueDepth[]> {
  const rows = await lane.run<Column>(QUEUE_DEPTHS, [MOST_QUEUES, MOST_JOBS])
  return rows.map((row) => ({
    queue: row.queue!,
    ready: Number(row.ready),
    scheduled: Number(row.scheduled),
    processing: Number(row.processing),
    oldestSeconds: Number(row.oldest_seconds),
    deadLetters: Number(row.dead_letters),
  }))
}

export async function workerCounts(lane: Lane): Promise<Record<'active' | 'draining' | 'silent', number>> {
  const [row] = await lane.run<'active' | 'draining' | 'silent'>(WORKER_COUNTS, [MOST_WORKERS])
  return { active: Number(row!.active), draining: Number(row!.draining), silent: Number(row!.silent) }
}

export interface ServerState {
  readonly deadRows: number
  readonly jobBytes: number
  readonly oldestTransactionSeconds: number
}

export async function serverState(lane: Lane): Promise<ServerState> {
  const [row] = await lane.run<'dead_rows' | 'job_bytes' | 'oldest_transaction_seconds'>(SERVER_STATE, [])
  return {
    deadRows: Number(row!.dead_rows),
    jobBytes: Number(row!.job_bytes),
    oldestTransactionSeconds: Number(row!.oldest_transaction_seconds),
  }
}
