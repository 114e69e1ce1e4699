/** What jobs that wait cost the claims of others: many keys, a long line of one key, and an ordered queue beside. */
import { among, type Bench, setUp, withProcess } from '../bench.ts'
import type { ClaimsFrom } from '../contenders/contender.ts'
import type { ContenderName } from '../contenders/names.ts'
import { costMicros, drain, warmUpJobs } from '../measure.ts'
import { claimLines, FEW, type Line } from '../order-lines.ts'
import type { Subject } from '../results.ts'
import { interleaved, pairs } from '../rounds.ts'
import type { Database } from '../server.ts'
import { percentile } from '../statistics.ts'

/** Jobs of a claim. */
export const CLAIM = 50
const WARM_UP = 20
const LATE_KEYS = 50
/** They keep a worker as busy as more of them would, for as long as the measurement takes. */
const BUSY_JOBS = 8_000
const CLAIMERS = ['leasehold-ordered', 'pg-boss-ordered'] as const
/** pg-boss reads all jobs that wait in each fetch. */
const PEER_CLAIMS = 20

/** A claim looks at heads of keys only: it must not matter how many jobs wait behind them, nor how many keys there are. */
export async function claimCosts(bench: Bench): Promise<void> {
  const lines = claimLines(bench.sizes.order.waiting)
  for (const contender of among(bench, CLAIMERS)) {
    const rounds = contender === 'leasehold-ordered' ? bench.sizes.rounds : 1
    const runs = await interleaved(
      bench,
      `order-claim, ${contender}`,
      [...lines.keys()],
      async (line) => {
        const database = await filled(bench, contender, lines.get(line)!)
        const result = await claimMicros(bench, contender, database, CLAIM)
        await database.drop()
        return { result, said: `${result?.toFixed(0) ?? '?'} µs a claim` }
      },
      () => rounds,
    )
    for (const [line, micros] of runs) {
      bench.results.add('order-claim', `${contender}, ${line}`, 'claimMicros', bench.sizes.order.claims, micros)
    }
    for (const line of lines.values()) await forget(bench, contender, line)
  }
}

/** A worker that is busy with one key. Jobs of other keys come one by one: from just before the enqueue to the start. */
export async function jobsInFront(bench: Bench): Promise<void> {
  const { waiting } = bench.sizes.order
  for (const contender of among(bench, ['leasehold-ordered'])) {
    const lines: Record<string, Line> = {
      'none in front': [],
      'few in front': [{ jobs: BUSY_JOBS, keys: 1 }],
      'in front': [{ jobs: waiting, keys: 1 }],
    }
    const runs = await interleaved(bench, 'order-front', Object.keys(lines), async (front) => {
      const database = await filled(bench, contender, lines[front]!)
      const options = { url: database.url, count: bench.sizes.idle, keys: LATE_KEYS }
      const { milliseconds } = await withProcess(bench, contender, (remote) => remote.call('idle', options))
      await database.drop()
      return { result: milliseconds, said: `p50 ${percentile(milliseconds, 0.5).toFixed(2)} ms` }
    })
    for (const [front, rounds] of runs) {
      const each = (share: number) => rounds.map((latencies) => percentile(latencies, share))
      const subject: Subject = `${contender}, ${front}`
      bench.results.add('order-front', subject, 'p50Ms', bench.sizes.idle, each(0.5))
      bench.results.add('order-front', subject, 'p99Ms', bench.sizes.idle, each(0.99))
    }
    for (const line of Object.values(lines)) await forget(bench, contender, line)
  }
}

/** An unordered queue in a database that has an ordered one as well, with jobs in it. */
export async function besideOrdered(bench: Bench): Promise<void> {
  const { pairs: count, claims } = bench.sizes.order
  const jobs = bench.sizes.beside
  const database = (burdened: boolean) =>
    bench.server.clone(`order-beside-${burdened}`, async (main, url) => {
      await setUp(bench, burdened ? 'leasehold-ordered' : 'leasehold', url)
      if (burdened) await fill(bench, 'leasehold-ordered', url, [FEW])
      await fill(bench, 'leasehold', url, [{ jobs, keys: 0 }])
      await main.query('vacuum (analyze)')
    })
  const compared = async (
    what: string,
    measured: number,
    cost: (on: Database, beside: number) => Promise<number | null>,
  ) => {
    const ratios = await pairs(bench, `order-beside, ${what}`, count, async (burdened) => {
      const on = await database(burdened)
      await bench.server.admin.query('checkpoint')
      const micros = await cost(on, burdened ? FEW.jobs : 0)
      await on.drop()
      return micros
    })
    bench.results.add('order-beside', `leasehold, ${what}`, 'costRatio', measured, ratios)
  }
  if (among(bench, ['leasehold']).length === 0) return
  await compared('claim of one job', claims * 10, (on) => claimMicros(bench, 'leasehold', on, 1, claims * 10))
  await compared('drain', jobs, async (on, beside) => {
    return costMicros(await drain(bench, 'leasehold', on, { style: 'backlog', jobs, beside }))
  })
}

export async function claimMicros(
  bench: Bench,
  contender: ContenderName,
  { url }: Database,
  limit: number,
  count = contender.startsWith('leasehold') ? bench.sizes.order.claims : PEER_CLAIMS,
  from: ClaimsFrom = 'start',
): Promise<number | null> {
  const options = { url, count, warmUp: Math.min(WARM_UP, count), limit, from }
  const { claimed, micros } = await withProcess(bench, contender, (remote) => remote.call('claims', options))
  if (claimed !== limit) throw new Error(`${contender} claimed ${claimed} jobs, not ${limit}`)
  return micros
}

/** Filled once and cloned. */
export async function filled(bench: Bench, contender: ContenderName, line: Line): Promise<Database> {
  const database = await bench.server.clone(templateOf(contender, line), async (main, url) => {
    await setUp(bench, contender, url)
    await fill(bench, contender, url, line)
    await main.query('vacuum (analyze)')
  })
  await bench.server.admin.query('checkpoint')
  return database
}

async function fill(bench: Bench, contender: ContenderName, url: string, line: Line): Promise<void> {
  await withProcess(bench, contender, async (remote) => {
    let from = 0
    for (const { jobs, keys, keyOrder } of line) {
      await remote.call('fill', { url, from, to: from + jobs, keys, keyOrder, warmUp: warmUpJobs(jobs) })
      from += jobs
    }
  })
}

export function forget(bench: Bench, contender: ContenderName, line: Line): Promise<void> {
  return bench.server.forget(templateOf(contender, line))
}

function templateOf(contender: ContenderName, line: Line): string {
  return [contender, ...line.map(({ jobs, keys, keyOrder = 'turns' }) => `${jobs}-${keys}-${keyOrder}`)].join('-')
}
