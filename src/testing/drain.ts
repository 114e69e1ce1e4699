/** Runs jobs until none is left, without waiting for delays and retries. */
import { AssertionError } from 'node:assert'
import { checkInteger } from '../core/check.ts'
import { type Duration, durationMs } from '../core/duration.ts'
import { checkOptions } from '../core/options.ts'
import type { Connection } from '../db/connection.ts'
import type { JobId } from '../jobs/job.ts'
import type { WorkerEvents } from '../worker/events.ts'
import type { Handler } from '../worker/handler.ts'
import { newTally, type Tally } from '../worker/outcome-events.ts'
import { Worker } from '../worker/worker.ts'
import type { TestClock } from './clock.ts'
import { stepOver } from './step-over.ts'

export interface DrainOptions {
  /** How far the clock is moved at most. Jobs that are due later stay. Default: 365d. */
  readonly atMost?: Duration
  /** More runs than this are an error: most likely a handler enqueues its own kind for ever. Default: 1000. */
  readonly maxRuns?: number
}

const OUTCOMES = ['completed', 'retrying', 'dead_letter', 'snoozed', 'cancelled', 'released'] as const

/** One run of a handler, or a job that became a dead letter without one. */
export interface DrainedRun {
  readonly jobId: JobId
  readonly kind: string
  readonly attempt: number
  readonly outcome: (typeof OUTCOMES)[number]
  /** Of a failed attempt. */
  readonly error: unknown
}

export interface Drained extends Tally {
  /** In order. */
  readonly runs: readonly DrainedRun[]
}

export async function drain(
  connection: Connection,
  clock: TestClock,
  handlers: readonly Handler[],
  options: DrainOptions,
): Promise<Drained> {
  checkOptions('drain', options, ['atMost', 'maxRuns'])
  const atMostMs = durationMs('drain.atMost', options.atMost ?? '365d')
  const maxRuns = checkInteger('drain.maxRuns', options.maxRuns ?? 1_000, 1, 1_000_000)
  // One at a time, so that a test does the same each time. A worker with one slot would make batches of one.
  const concurrency = handlers.some(({ runBatch }) => runBatch !== undefined) ? {} : { concurrency: 1 }
  const total = newTally()
  const runs: DrainedRun[] = []
  let started = 0
  const work = async () => {
    const worker = new Worker(connection, handlers, concurrency, 'empty')
    worker.on('started', () => {
      if (++started > maxRuns) void worker.stop()
    })
    const before = runs.length
    record(worker, runs)
    await worker.run()
    for (const name of Object.keys(total) as (keyof Tally)[]) total[name] += worker.tally[name]
    if (started > maxRuns) throw endless(maxRuns, runs)
    return runs.length - before
  }
  await stepOver({ connection, clock, handlers, atMostMs, work, isOver: async () => false })
  return { ...total, runs }
}

function record(worker: Worker, runs: DrainedRun[]): void {
  for (const outcome of OUTCOMES) {
    worker.on(outcome, (...[job]: WorkerEvents[typeof outcome]) => {
      const { jobId, kind, attempt } = job
      runs.push({ jobId, kind, attempt, outcome, error: 'error' in job ? job.error : undefined })
    })
  }
}

function endless(maxRuns: number, runs: readonly DrainedRun[]): AssertionError {
  const counts = new Map<string, number>()
  for (const { kind, outcome } of runs) {
    const key = `${JSON.stringify(kind)} ${outcome}`
    counts.set(key, (counts.get(key) ?? 0) + 1)
  }
  const most = [...counts].sort(([, one], [, other]) => other - one).slice(0, 5)
  return new AssertionError({
    message:
      `drain() has run ${maxRuns} jobs, and more are due: ${most.map(([key, count]) => `${key} ${count} times`).join(', ')}. ` +
      'If a handler enqueues its own kind or snoozes for ever, pass `atMost`, so that time ends; if so many are right, a higher `maxRuns`.',
    operator: 'drain',
  })
}
