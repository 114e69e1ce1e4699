/** Jobs a second, and what one costs. */
import { among, type Bench, freshDatabase, withProcess } from '../bench.ts'
import { ONE_ROW, UPDATE_ONE_ROW } from '../burdens.sql.ts'
import { type ContenderName, FLOORS, QUEUES } from '../contenders/names.ts'
import { type DrainOptions, drain, fill, type Span, spanSince, untilFinished, warmUpJobs } from '../measure.ts'
import type { Filled } from '../process/protocol.ts'
import { interleaved } from '../rounds.ts'
import type { Database } from '../server.ts'
import { addSpans, saidPerSecond } from '../spans.ts'

const STEADY = { batch: 500, backlog: 20_000 }
const MARK_EVERY = 500
const SLOW_HANDLER_MS = 20
const NEVER_ANALYZED_SECONDS = 30

interface Run {
  readonly filled: Filled
  readonly drained: Span
}

/** All is enqueued, then one worker process empties the queue. */
export async function drainScenario(bench: Bench): Promise<void> {
  const runs = await drains(bench, 'drain', [...QUEUES, ...FLOORS], (contender) => ({
    style: 'backlog',
    jobs: contender === 'bullmq' ? bench.sizes.slowJobs : bench.sizes.jobs,
  }))
  for (const [contender, own] of runs) {
    const add = (measure: 'jobsPerSecond' | 'nodeMicrosPerJob', of: (filled: Filled) => number) => {
      const values = own.map(({ filled }) => of(filled))
      bench.results.add('enqueue', contender, measure, own[0]!.filled.jobs, values)
    }
    add('jobsPerSecond', ({ jobs, seconds }) => jobs / seconds)
    add('nodeMicrosPerJob', ({ jobs, nodeMicros }) => nodeMicros / jobs)
  }
}

/** The same on tables that no vacuum and no analyze has seen, as after a burst into an empty queue. */
export async function neverAnalyzedScenario(bench: Bench): Promise<void> {
  await bench.server.configure('autovacuum', 'off')
  const contenders: ContenderName[] = ['leasehold', 'leasehold-not-kept', 'graphile-worker', 'pg-boss']
  const options = { style: 'backlog', jobs: bench.sizes.jobs, limitSeconds: NEVER_ANALYZED_SECONDS } as const
  await drains(bench, 'never-analyzed', contenders, () => options, 'as it is')
  await bench.server.configure('autovacuum', 'on')
}

/** Handlers that wait for something else, 500 at a time. */
export async function asyncScenario(bench: Bench): Promise<void> {
  await drains(bench, 'async', QUEUES, (contender) => ({
    style: 'slow-handlers',
    jobs: contender === 'bullmq' ? bench.sizes.slowJobs : bench.sizes.asyncJobs,
    handlerMs: SLOW_HANDLER_MS,
  }))
}

/** One job at a time from end to end, nothing claimed ahead. */
export async function oneByOneScenario(bench: Bench): Promise<void> {
  await drains(bench, 'batch-1', QUEUES, () => ({ style: 'one-by-one', jobs: bench.sizes.oneByOne }))
  const spans: Span[] = []
  for (let round = 0; round < bench.sizes.rounds; round++) spans.push(await commits(bench, bench.sizes.oneByOne))
  addSpans(bench, 'batch-1', 'bare', spans)
}

/** One handler at a time, with what each has to make that fast: jobs claimed ahead, and completed together. BullMQ has neither. */
export async function oneHandlerScenario(bench: Bench): Promise<void> {
  const contenders = QUEUES.filter((queue) => queue !== 'bullmq')
  await drains(bench, 'one-handler', contenders, () => ({ style: 'one-handler', jobs: bench.sizes.oneHandler }))
}

/** `bare`: a row is updated and committed, from Node and back, again and again. No queue that ends its jobs durably can do with less. */
async function commits(bench: Bench, count: number): Promise<Span> {
  const database = await bench.server.clone('bare', async (main) => {
    await main.query(ONE_ROW)
  })
  const { client } = await database.connect()
  const update = async (times: number) => {
    for (let i = 0; i < times; i++) await client.query({ name: 'update_one_row', text: UPDATE_ONE_ROW })
  }
  await update(Math.ceil(count / 3))
  const [began, node, server] = [performance.now(), process.cpuUsage(), bench.server.micros()]
  await update(count)
  const seconds = (performance.now() - began) / 1000
  const { user, system } = process.cpuUsage(node)
  const after = bench.server.micros()
  await client.end()
  await database.drop()
  const databaseMicros = after === null || server === null ? null : after - server
  return { jobs: count, seconds, nodeMicros: user + system, databaseMicros, statements: count, commits: count }
}

/** A producer and a worker at the same time, from the end of the warm-up to the last completion. The database serves both. */
export async function steadyScenario(bench: Bench): Promise<void> {
  const runs = await interleaved(bench, 'steady', among(bench, QUEUES), async (contender) => {
    const jobs = contender === 'bullmq' ? bench.sizes.slowJobs : bench.sizes.steadyJobs
    const database = await freshDatabase(bench, contender)
    const result = await flow(bench, contender, database, jobs)
    await database.drop()
    return { result, said: saidPerSecond(result) }
  })
  for (const [contender, own] of runs) addSpans(bench, 'steady', contender, own)
}

function flow(bench: Bench, contender: ContenderName, database: Database, jobs: number): Promise<Span> {
  const { url } = database
  const warmUp = Math.ceil(warmUpJobs(jobs) / MARK_EVERY) * MARK_EVERY
  const marks = Array.from({ length: Math.ceil(jobs / MARK_EVERY) }, (_, i) => Math.min((i + 1) * MARK_EVERY, jobs))
  return withProcess(bench, contender, (worker) =>
    withProcess(bench, contender, async (producer) => {
      worker.onMark(({ handled }) => void producer.call('finished', { count: handled }).catch(() => {}))
      await worker.call('work', { url, style: 'steady', jobs, marks })
      await bench.server.admin.query('checkpoint')
      const producing = producer.call('produce', { url, from: 0, to: jobs, ...STEADY })
      await worker.mark(warmUp)
      // Statistics as autovacuum would have left them: without them graphile-worker took twice as long.
      await database.main.query('analyze')
      const began = { usage: await worker.call('usage', {}), databaseMicros: bench.server.micros() }
      await producing
      await worker.mark(jobs)
      await untilFinished(bench, contender, database)
      const span = await spanSince(bench, worker, began)
      const { handled } = await worker.call('stop', {})
      if (handled !== jobs) throw new Error(`${contender} handled ${handled} of ${jobs} jobs`)
      return span
    }),
  )
}

async function drains(
  bench: Bench,
  scenario: string,
  contenders: readonly ContenderName[],
  options: (contender: ContenderName) => DrainOptions,
  tables: 'analyzed' | 'as it is' = 'analyzed',
): Promise<Map<ContenderName, Run[]>> {
  const runs = await interleaved(bench, scenario, among(bench, contenders), async (contender) => {
    const own = options(contender)
    const database = await freshDatabase(bench, contender)
    const filled = await fill(bench, contender, database.url, own.jobs)
    // Statistics as autovacuum would have left them, and no page written whole on behalf of the enqueue.
    if (tables === 'analyzed') await database.main.query('vacuum (analyze)')
    await bench.server.admin.query('checkpoint')
    const drained = await drain(bench, contender, database, own)
    await database.drop()
    return { result: { filled, drained }, said: saidPerSecond(drained) }
  })
  for (const [contender, own] of runs) {
    addSpans(
      bench,
      scenario,
      contender,
      own.map(({ drained }) => drained),
    )
  }
  return runs
}
