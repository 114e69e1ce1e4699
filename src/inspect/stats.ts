/** How much work each queue has. Cheap at millions of rows: counts stop at a cap. */
import { checkInteger, checkText } from '../core/check.ts'
import { checkOptions } from '../core/options.ts'
import type { Lane, Row } from '../db/lane.ts'
import { LIST_QUEUES, QUEUE_RATES, STATS } from './stats.sql.ts'

/** What counts as recent. */
export const RECENT_MS = 300_000
const QUEUES_AT_MOST = 1_000

/** A number of jobs. `atLeast`: counting stopped at the cap. */
export interface Count {
  readonly jobs: number
  readonly atLeast: boolean
}

export interface QueueStats {
  readonly queue: string
  /** Due, and nothing but a free worker is missing. */
  readonly ready: Count
  /** Due later. */
  readonly scheduled: Count
  /** Failed, and due again later. */
  readonly retrying: Count
  /** Runs of workflows that sleep, or wait for a signal or a job. */
  readonly waiting: Count
  /** Behind another job of their key. */
  readonly blocked: Count
  /** Due, but their kind or queue is paused. */
  readonly paused: Count
  readonly processing: Count
  readonly deadLetters: Count
  /** Dead letters of the last 5 minutes. */
  readonly diedRecently: Count
  /** How long the oldest ready job has been due. Null: none is ready. */
  readonly oldestReadyMs: number | null
  /** Jobs completed a second, by the last beats of the workers that run. */
  readonly completedPerSecond: number
  /** Attempts that failed a second, likewise. */
  readonly failedPerSecond: number
  /** When the queue was paused. Null: it is not. */
  readonly pausedAt: Date | null
  readonly ordered: boolean
}

export interface StatsOptions {
  /** Default: all, at most 1,000. */
  readonly queue?: string
  /** Where counting stops. Default: 500, at most 1,000,000. */
  readonly countTo?: number
}

/** A queue without jobs is in the answer if it or one of its kinds was configured, or if a worker that runs claims from it. */
export async function stats(lane: Lane, options: StatsOptions = {}): Promise<QueueStats[]> {
  checkOptions('stats', options, ['queue', 'countTo'])
  const countTo = checkInteger('stats.countTo', options.countTo ?? 500, 1, 1_000_000)
  const { queue } = options
  const queues = queue === undefined ? await listQueues(lane) : [checkText('stats.queue', queue, 200)]
  if (queues.length === 0) return []
  const rows = await lane.run<Column>(STATS, [countTo, queues, RECENT_MS])
  const rates = await ratesOf(lane)
  return rows.map((row) => ({ ...toStats(row, countTo), ...(rates.get(row.queue!) ?? NO_RATES) }))
}

type Rates = Pick<QueueStats, 'completedPerSecond' | 'failedPerSecond'>

const NO_RATES: Rates = { completedPerSecond: 0, failedPerSecond: 0 }

async function ratesOf(lane: Lane): Promise<Map<string, Rates>> {
  const rows = await lane.run<'queue' | 'completed' | 'failed'>(QUEUE_RATES, [])
  return new Map(
    rows.map(({ queue, completed, failed }) => [
      queue!,
      { completedPerSecond: Number(completed), failedPerSecond: Number(failed) },
    ]),
  )
}

/** Queues that have jobs or dead letters, were configured, or have a worker that runs. */
export async function listQueues(lane: Lane): Promise<string[]> {
  return (await lane.run<'name'>(LIST_QUEUES, [QUEUES_AT_MOST])).map(({ name }) => name!)
}

type Column =
  | 'queue'
  | 'ready'
  | 'paused'
  | 'due_walked'
  | 'scheduled'
  | 'retrying'
  | 'waiting'
  | 'future_walked'
  | 'suspects'
  | 'paused_suspects'
  | 'later_suspects'
  | 'blocked'
  | 'keys_walked'
  | 'processing'
  | 'dead'
  | 'recent'
  | 'oldest_ms'
  | 'paused_ms'
  | 'ordered'
  | 'paused_kinds'

function toStats(row: Row<Column>, countTo: number): Omit<QueueStats, keyof Rates> {
  const pausedAt = row.paused_ms === null ? null : new Date(Number(row.paused_ms))
  // A count is exact if the walk that it comes from ended before the cap.
  const count = (jobs: string | number | null, walked: string | number | null = jobs): Count => {
    return { jobs: Number(jobs), atLeast: Number(walked) >= countTo }
  }
  const dueWalked = Math.max(Number(row.due_walked), Number(row.suspects) + Number(row.paused_suspects))
  const runnable = Number(row.ready) + Number(row.suspects)
  const isPaused = pausedAt !== null
  return {
    queue: row.queue!,
    ready: isPaused ? count(0) : count(runnable, dueWalked),
    scheduled: count(row.scheduled, row.future_walked),
    retrying: count(Number(row.retrying) + Number(row.later_suspects), row.future_walked),
    waiting: count(row.waiting, row.future_walked),
    blocked: count(row.blocked, row.keys_walked),
    paused:
      isPaused || row.paused_kinds !== '0'
        ? count(Number(row.paused) + Number(row.paused_suspects) + (isPaused ? runnable : 0), dueWalked)
        : count(0),
    processing: count(row.processing),
    deadLetters: count(row.dead),
    diedRecently: count(row.recent),
    oldestReadyMs: row.oldest_ms === null || isPaused ? null : Math.max(0, Number(row.oldest_ms)),
    pausedAt,
    ordered: row.ordered !== '0',
  }
}
