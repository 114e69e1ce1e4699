/** `leasehold/prometheus`: the metrics of this process and of the queues, in Prometheus' text format. */
import { monotonicMs } from '../core/timer.ts'
import { type Connection, connectionOf } from '../db/connection.ts'
import { Lane } from '../db/lane.ts'
import { PooledStatements } from '../db/pooled.ts'
import { METRICS } from './metrics.ts'
import { OUTCOMES, ProcessMetrics } from './process-metrics.ts'
import { queueDepths, serverState, workerCounts } from './queue-depths.ts'
import { onEachWorker, runningWorkers } from './running-workers.ts'
import { CONTENT_TYPE, type Labels, printFamily, type Sample } from './text-format.ts'

/** A scrape waits no longer for the database, with all its statements. */
const DEADLINE_MS = 5_000
/** Two scrapers, or one in a hurry, cost the database no more than one. */
const KEPT_MS = 5_000

type Samples = Partial<Record<keyof typeof METRICS, readonly Sample[]>>

/**
 * A handler of GET requests, in the style of fetch: counts the workers of this Leasehold from now on, so make it before they run.
 * The answer has the names of queues and kinds; serve it where only your monitoring can reach it.
 */
export function metricsHandler(leasehold: object): (request?: Request) => Promise<Response> {
  const connection = connectionOf('metricsHandler', leasehold)
  const counted = new ProcessMetrics()
  onEachWorker(connection, (worker) => counted.watch(worker))
  const ofDatabase = kept(() => databaseSamples(connection))
  return async (request) => {
    const method = request?.method ?? 'GET'
    if (method !== 'GET' && method !== 'HEAD')
      return new Response(null, { status: 405, headers: { allow: 'GET, HEAD' } })
    const text = print({ ...(await ofDatabase()), ...processSamples(connection, counted) })
    return new Response(method === 'HEAD' ? null : text, { headers: { 'content-type': CONTENT_TYPE } })
  }
}

function print(samples: Samples): string {
  const names = Object.keys(METRICS) as (keyof typeof METRICS)[]
  return names.map((name) => printFamily(name, METRICS[name], samples[name] ?? [])).join('')
}

/** The answer of a call is that of all calls until it is this old. */
function kept<Answer>(read: () => Promise<Answer>): () => Promise<Answer> {
  let answer: Promise<Answer> | undefined
  let since = 0
  return () => {
    if (answer === undefined || monotonicMs() - since > KEPT_MS) {
      since = monotonicMs()
      answer = read()
    }
    return answer
  }
}

/** A database that is away leaves the metrics of the process, and `leasehold_up` is 0. */
async function databaseSamples({ pool, schema, prepare }: Connection): Promise<Samples> {
  const lane = new Lane(PooledStatements.together(pool, DEADLINE_MS), { schema, prepare })
  try {
    const [queues, workers, server] = [await queueDepths(lane), await workerCounts(lane), await serverState(lane)]
    return {
      leasehold_up: one(1),
      leasehold_queue_jobs: queues.flatMap(({ queue, ready, scheduled, processing }) => [
        sample({ queue, state: 'ready' }, ready),
        sample({ queue, state: 'scheduled' }, scheduled),
        sample({ queue, state: 'processing' }, processing),
      ]),
      leasehold_queue_oldest_seconds: queues.map(({ queue, oldestSeconds }) => sample({ queue }, oldestSeconds)),
      leasehold_queue_dead_letters: queues.map(({ queue, deadLetters }) => sample({ queue }, deadLetters)),
      leasehold_workers: Object.entries(workers).map(([state, count]) => sample({ state }, count)),
      leasehold_job_table_dead_rows: one(server.deadRows),
      leasehold_job_table_bytes: one(server.jobBytes),
      leasehold_oldest_transaction_seconds: one(server.oldestTransactionSeconds),
    }
  } catch {
    return { leasehold_up: one(0) }
  }
}

function processSamples(connection: Connection, counted: ProcessMetrics): Samples {
  const { kinds } = counted
  const workers = runningWorkers(connection).map(({ health }) => health)
  const sum = (field: 'held' | 'running') => workers.reduce((total, worker) => total + worker[field], 0)
  return {
    leasehold_job_outcomes_total: kinds.flatMap(({ labels, outcomes }) =>
      OUTCOMES.map((outcome) => sample({ ...labels, outcome }, outcomes[outcome])),
    ),
    leasehold_handler_seconds: kinds.flatMap(({ labels, handler }) => handler.samples(labels)),
    leasehold_start_delay_seconds: kinds.flatMap(({ labels, startDelay }) => startDelay.samples(labels)),
    leasehold_jobs_running: one(sum('running')),
    leasehold_jobs_held: one(sum('held')),
    leasehold_jobs_reclaimed_total: one(counted.reclaimed),
    leasehold_worker_deaths_total: one(counted.workerDeaths),
    leasehold_problems_total: one(counted.problems),
  }
}

function sample(labels: Labels, value: number): Sample {
  return { labels, value }
}

function one(value: number): Sample[] {
  return [sample({}, value)]
}
