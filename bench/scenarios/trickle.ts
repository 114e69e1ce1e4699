/**
 * The load that most queues have: jobs come one by one, at random, and each takes a while. A worker is busy with a bit more
 * than half of what it can run at a time, so claims and completions find little to batch.
 */
import { Backends, urlFor } from '../backends.ts'
import { among, type Bench, freshDatabase, withProcess } from '../bench.ts'
import type { Style } from '../contenders/contender.ts'
import type { ContenderName } from '../contenders/names.ts'
import { countUnfinished, untilFinished, within } from '../measure.ts'
import { monotonicMs, type Usage } from '../process/protocol.ts'
import type { Remote } from '../process/remote.ts'
import type { Measure } from '../results.ts'
import { interleaved } from '../rounds.ts'
import type { Database } from '../server.ts'
import { percentile } from '../statistics.ts'

interface Load {
  /** As the scenario is called in results, too. */
  readonly style: Style
  readonly perSecond: number
}

const LOADS: readonly Load[] = [
  { style: 'trickle-50', perSecond: 300 },
  { style: 'trickle-10', perSecond: 60 },
]
const HANDLER_MEAN_MS = 100
/**
 * A worker runs for days, and Node compiles what it runs often. At 60 jobs a second that takes minutes, so the warm-up has the same load at another
 * pace: as many jobs are under way, but each is shorter.
 */
const WARM_UP_PER_SECOND = 300
/** Then some at their own pace. */
const SETTLES_SECONDS = 2
/** Jobs still come while the window ends. */
const TAIL_SECONDS = 1
/** A worker that cannot keep pace is measured on what it did until then. */
const LATE_SECONDS = 30

const CONTENDERS: readonly ContenderName[] = [
  'leasehold',
  'leasehold-not-kept',
  'graphile-worker',
  'graphile-worker-no-local-queue',
  'pg-boss',
]
/** No bar is about them. */
const FEWER_ROUNDS: readonly ContenderName[] = ['graphile-worker-no-local-queue', 'pg-boss']

type Figures = Partial<Record<Measure, number | null>> & { readonly jobs: number }

const MEASURES: readonly Measure[] = [
  'nodeMicrosPerJob',
  'workerDatabaseMicrosPerJob',
  'workerMicrosPerJob',
  'producerDatabaseMicrosPerJob',
  'totalMicrosPerJob',
  'statementsPerJob',
  'commitsPerJob',
  'p50Ms',
  'p99Ms',
]

export async function trickleScenario(bench: Bench): Promise<void> {
  const { trickle, fewerRounds } = bench.sizes
  const roundsOf = (contender: ContenderName) => (FEWER_ROUNDS.includes(contender) ? fewerRounds : trickle.rounds)
  for (const load of LOADS) {
    const runs = await interleaved(
      bench,
      load.style,
      among(bench, CONTENDERS),
      async (contender) => {
        const database = await freshDatabase(bench, contender)
        const result = await window(bench, contender, database, load)
        await database.drop()
        return { result, said: said(result) }
      },
      roundsOf,
    )
    for (const [contender, own] of runs) {
      const jobs = Math.min(...own.map((figures) => figures.jobs))
      for (const measure of MEASURES) {
        const values = own.map((figures) => figures[measure] ?? null)
        bench.results.add(load.style, contender, measure, jobs, values)
      }
    }
  }
}

/** From the first handler after the warm-up to the last of the window, while jobs keep coming. */
async function window(bench: Bench, contender: ContenderName, database: Database, load: Load): Promise<Figures> {
  const { admin } = bench.server
  const { warmUpJobs, seconds } = bench.sizes.trickle
  const warmUp = { jobs: warmUpJobs, faster: WARM_UP_PER_SECOND / load.perSecond }
  const from = warmUpJobs + load.perSecond * SETTLES_SECONDS
  const to = from + Math.round(load.perSecond * seconds)
  const jobs = to + load.perSecond * TAIL_SECONDS
  const url = {
    worker: await urlFor(admin, database.url, 'worker'),
    producer: await urlFor(admin, database.url, 'producer'),
  }
  const backends = { worker: new Backends(admin, 'worker'), producer: new Backends(admin, 'producer') }
  const databaseMicros = () => ({ worker: backends.worker.micros(), producer: backends.producer.micros() })
  const measured = (worker: Remote) =>
    withProcess(bench, contender, async (producer) => {
      const { style, perSecond } = load
      const handlers = { handlerMeanMs: HANDLER_MEAN_MS, warmUp, marks: [from, to] }
      await worker.call('work', { url: url.worker, style, jobs, ...handlers })
      const arriving = producer.call('trickle', { url: url.producer, style, jobs, perSecond, warmUp })
      const began = { usage: await worker.mark(from), database: databaseMicros() }
      await within(seconds + LATE_SECONDS, worker.mark(to))
      const ended = { database: databaseMicros(), usage: await worker.call('usage', {}) }
      const { calledAtMs } = await arriving
      await untilFinished(bench, contender, database, 0, LATE_SECONDS)
      const { startedAtMs } = await worker.call('starts', {})
      const { handled } = await worker.call('stop', {})
      const left = await countUnfinished(bench, contender, database)
      if (handled + left !== jobs) throw new Error(`${contender}: ${jobs} jobs, ${handled} handled, ${left} left`)
      const now = monotonicMs()
      // A job that was never started has waited until now.
      const waits = calledAtMs.slice(from, to).map((calledMs, at) => (startedAtMs[from + at] ?? now) - calledMs)
      return figuresOf(began, ended, waits)
    })
  try {
    return await withProcess(bench, contender, measured)
  } finally {
    backends.worker.stop()
    backends.producer.stop()
  }
}

interface Moment {
  readonly usage: Usage
  readonly database: { readonly worker: number | null; readonly producer: number | null }
}

function figuresOf(began: Moment, ended: Moment, waits: readonly number[]): Figures {
  const jobs = ended.usage.handled - began.usage.handled
  const perJob = (after: number | null, before: number | null) =>
    after === null || before === null ? null : (after - before) / jobs
  const node = (ended.usage.nodeMicros - began.usage.nodeMicros) / jobs
  const worker = perJob(ended.database.worker, began.database.worker)
  const producer = perJob(ended.database.producer, began.database.producer)
  return {
    jobs,
    nodeMicrosPerJob: node,
    workerDatabaseMicrosPerJob: worker,
    workerMicrosPerJob: worker === null ? null : node + worker,
    producerDatabaseMicrosPerJob: producer,
    totalMicrosPerJob: worker === null || producer === null ? null : node + worker + producer,
    statementsPerJob: perJob(ended.usage.statements, began.usage.statements),
    commitsPerJob: perJob(ended.usage.commits, began.usage.commits),
    p50Ms: percentile(waits, 0.5),
    p99Ms: percentile(waits, 0.99),
  }
}

function said({ workerMicrosPerJob, p50Ms, p99Ms, statementsPerJob }: Figures): string {
  const rounded = (value: number | null | undefined, digits = 1) => value?.toFixed(digits) ?? '?'
  const cost = `${rounded(workerMicrosPerJob, 0)} µs a job, ${rounded(statementsPerJob, 2)} statements`
  return `${cost}, p50 ${rounded(p50Ms)} ms, p99 ${rounded(p99Ms)} ms`
}
