/** Runs that sleep beside runs that work; and senders of signals in open transactions. */
import pg from 'pg'
import { Leasehold } from '../../src/index.ts'
import { handleRuns, signal, start, workflow } from '../../src/workflow/index.ts'
import { serverMicros } from '../processors.ts'
import type { BenchServer } from '../server.ts'
import { median } from '../statistics.ts'
import { atMost, type Bar } from '../weather/bar.ts'
import { FILL_WITH_SLEEPERS } from './sleeping.sql.ts'

const SENDERS = 100

const short = workflow<number, number>('short', {}, async (run, n) => run.step('a', () => n))
const waits = workflow<null, unknown>('waits', {}, async (run) => run.signal('go'))

export async function sleeping(server: BenchServer, sleepers: number, runs: number, pairs: number): Promise<Bar[]> {
  const ratios: number[] = []
  for (let pair = 0; pair < pairs; pair++) {
    const [alone, beside] = pair % 2 === 0 ? [0, 1] : [1, 0]
    const costs: number[] = []
    for (const which of [alone, beside]) costs[which] = await costOfRuns(server, which === 1 ? sleepers : 0, runs)
    ratios.push(costs[1]! / costs[0]!)
  }
  return [
    atMost(`cost of a run, ${sleepers} runs sleep beside ÷ none`, median(ratios), 'times', 1.1),
    await openSenders(server),
  ]
}

async function prepared(main: pg.Client, url: string): Promise<void> {
  const leasehold = new Leasehold({ connectionString: url, log: () => {} })
  await leasehold.migrate()
  await leasehold.close()
  await main.query('vacuum analyze')
}

async function costOfRuns(server: BenchServer, sleepers: number, runs: number): Promise<number> {
  const database = await server.clone(`sleepers-${sleepers}`, async (main, url) => {
    await prepared(main, url)
    if (sleepers > 0) await main.query(FILL_WITH_SLEEPERS, [sleepers])
    await main.query('vacuum analyze')
  })
  const leasehold = new Leasehold({ connectionString: database.url, log: () => {} })
  const startAll = async (from: number, to: number) => {
    const numbers = Array.from({ length: to - from }, (_, n) => ({
      input: from + n,
      idempotencyKey: `run ${from + n}`,
    }))
    await leasehold.enqueueMany(short.kind, numbers)
  }
  await startAll(0, runs / 2)
  await leasehold.drain([handleRuns(short)], { concurrency: 50 })
  await startAll(runs / 2, runs + runs / 2)
  const spent = () => {
    const { user, system } = process.cpuUsage()
    return user + system + (serverMicros(server.postmaster) ?? 0)
  }
  const before = spent()
  await leasehold.drain([handleRuns(short)], { concurrency: 50 })
  const took = spent() - before
  await leasehold.close()
  await database.drop()
  return took / runs
}

/** Each of them keeps its transaction open until all have sent. If one waited for another, they would never end. */
async function openSenders(server: BenchServer): Promise<Bar> {
  const database = await server.clone('signals', prepared)
  const pool = new pg.Pool({ connectionString: database.url, max: SENDERS })
  const leasehold = new Leasehold({ pool, log: () => {} })
  await start(leasehold, waits, null, { runId: 'one' })
  await leasehold.drain([handleRuns(waits)])
  const clients = await Promise.all(Array.from({ length: SENDERS }, () => pool.connect()))
  let waited = 0
  for (const tx of clients) {
    await tx.query("set lock_timeout = '1s'")
    await tx.query('begin')
    await signal(leasehold, waits, 'one', 'go', null, { tx }).catch(() => waited++)
  }
  for (const tx of clients) {
    await tx.query('commit')
    tx.release()
  }
  await leasehold.close()
  await pool.end()
  await database.drop()
  return atMost(`senders that wait for another, of ${SENDERS} in open transactions`, waited, 'senders', 0)
}
