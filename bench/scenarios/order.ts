/**
 * Queues that keep the order of each key: what order costs beside a queue without, and what a long line of one key or of
 * many costs the others. Every drain checks that the jobs of a key start in order, one after the other, and once each.
 */
import { among, type Bench, freshDatabase, withProcess } from '../bench.ts'
import { type ContenderName, ORDERED } from '../contenders/names.ts'
import { type DrainOptions, drain, warmUpJobs } from '../measure.ts'
import type { Filled } from '../process/protocol.ts'
import { interleaved } from '../rounds.ts'
import { addSpans, saidPerSecond } from '../spans.ts'
import { fairClaims } from './fair.ts'
import { besideOrdered, claimCosts, jobsInFront } from './order-claims.ts'

const PEERS_SECONDS = 10
/** The same jobs without order, and those that keep it. */
const CONTENDERS = ['leasehold', ...ORDERED] as const
const OURS = ['leasehold', 'leasehold-ordered'] as const

export async function orderScenario(bench: Bench): Promise<void> {
  const { keys, enqueued, singles } = bench.sizes.order
  await manyKeys(bench)
  await oneKey(bench)
  await enqueues(bench, 'order-enqueue', CONTENDERS, enqueued, keys)
  await enqueues(bench, 'order-enqueue-own-key', OURS, enqueued, enqueued)
  await enqueues(bench, 'order-single', OURS, singles, keys, 1)
  await claimCosts(bench)
  await jobsInFront(bench)
  await besideOrdered(bench)
  await fairClaims(bench)
}

async function manyKeys(bench: Bench): Promise<void> {
  const { jobs, keys } = bench.sizes.order
  await drains(bench, 'order-keys', among(bench, CONTENDERS), keys, (contender) => ({
    style: contender === 'leasehold' ? 'backlog' : 'keys',
    jobs,
    ...(isOurs(contender) ? {} : { until: Math.ceil(jobs / 2), limitSeconds: PEERS_SECONDS }),
  }))
}

async function oneKey(bench: Bench): Promise<void> {
  const { ofOneKey: jobs, ofOneKeyByPeers: until } = bench.sizes.order
  await drains(bench, 'order-one-key', among(bench, ORDERED), 1, (contender) => ({
    style: 'one-key',
    jobs,
    // graphile-worker does not wait for its last completion.
    ...(isOurs(contender) ? {} : { until, limitSeconds: PEERS_SECONDS, losesAtMost: 1 }),
  }))
}

async function drains(
  bench: Bench,
  scenario: string,
  contenders: readonly ContenderName[],
  keys: number,
  options: (contender: ContenderName) => DrainOptions,
): Promise<void> {
  const runs = await interleaved(bench, scenario, contenders, async (contender) => {
    const own = options(contender)
    const database = await freshDatabase(bench, contender)
    await enqueue(bench, contender, database.url, own.jobs, keys)
    await database.main.query('vacuum (analyze)')
    await bench.server.admin.query('checkpoint')
    const result = await drain(bench, contender, database, { ...own, ordered: contender !== 'leasehold' })
    await database.drop()
    return { result, said: saidPerSecond(result) }
  })
  for (const [contender, spans] of runs) addSpans(bench, scenario, contender, spans)
}

/** Processor time of Node and of the database, with order and without. `batch` 1 is a call for each job. */
export async function enqueues(
  bench: Bench,
  scenario: string,
  contenders: readonly ContenderName[],
  jobs: number,
  keys: number,
  batch?: number,
): Promise<void> {
  const runs = await interleaved(bench, scenario, among(bench, contenders), async (contender) => {
    const database = await freshDatabase(bench, contender)
    await bench.server.admin.query('checkpoint')
    const result = await enqueue(bench, contender, database.url, jobs, keys, batch)
    await database.drop()
    return { result, said: saidPerSecond(result) }
  })
  for (const [contender, own] of runs) {
    const add = (measure: Parameters<typeof bench.results.add>[2], of: (filled: Filled) => number | null) =>
      bench.results.add(scenario, contender, measure, own[0]!.jobs, own.map(of))
    add('jobsPerSecond', (filled) => filled.jobs / filled.seconds)
    add('nodeMicrosPerJob', (filled) => filled.nodeMicros / filled.jobs)
    add('databaseMicrosPerJob', ({ databaseMicros, jobs: count }) => {
      return databaseMicros === null ? null : databaseMicros / count
    })
  }
}

function enqueue(
  bench: Bench,
  contender: ContenderName,
  url: string,
  jobs: number,
  keys: number,
  batch?: number,
): Promise<Filled> {
  const { postmaster } = bench.server
  const options = { url, from: 0, to: jobs, keys, warmUp: warmUpJobs(jobs), postmaster }
  return withProcess(bench, contender, (remote) =>
    remote.call('fill', batch === undefined ? options : { ...options, batch }),
  )
}

function isOurs(contender: ContenderName): boolean {
  return contender.startsWith('leasehold')
}
