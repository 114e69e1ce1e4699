/**
 * What an operator's questions cost on large tables: 1M live and 3M archived jobs over ten queues, in a database that is vacuumed and
 * analyzed. Each is asked many times on one connection. "Database" is the processor time of its backend for one question, planning
 * included, at the median: pages are in memory, and a wait for the disk would not be in it. "Client" is how long the caller waited,
 * which also depends on what else the machine does.
 */
import pg from 'pg'
import { connectionOf } from '../src/db/connection.ts'
import { Leasehold } from '../src/index.ts'
import { findTrouble } from '../src/inspect/trouble.ts'
import { FILL_ARCHIVE, FILL_CLAIM, FILL_DEAD_LETTERS, FILL_LIVE } from './inspect.sql.ts'
import { processMicros } from './processors.ts'
import { BenchServer } from './server.ts'
import { median } from './statistics.ts'

const MOST_MS = 50
const TIMES = 30

export async function runInspect({ quick, json }: { quick: boolean; json: boolean }): Promise<void> {
  const sizes = quick ? { live: 20_000, archived: 60_000 } : { live: 1_000_000, archived: 3_000_000 }
  const server = await BenchServer.start(18)
  try {
    const database = await server.clone('inspect', async (main, url) => {
      const leasehold = new Leasehold({ connectionString: url, log: () => {} })
      await leasehold.migrate()
      await leasehold.close()
      await main.query(FILL_LIVE, [sizes.live])
      await main.query(FILL_CLAIM)
      await main.query(FILL_ARCHIVE, [sizes.archived])
      await main.query(FILL_DEAD_LETTERS, [sizes.live / 10])
      await main.query('vacuum analyze')
    })
    const figures = await ask(database.url, sizes.live)
    await database.drop()
    const bars = figures
      .filter(({ promised }) => promised)
      .map(({ question, databaseMs: value }) => ({
        name: `${question}, ms`,
        value,
        most: MOST_MS,
        holds: value <= MOST_MS,
      }))
    for (const { question, databaseMs, clientMs, promised } of figures) {
      const verdict = promised ? `; at most ${MOST_MS} ms: ${databaseMs <= MOST_MS ? 'holds' : 'MISSED'}` : ''
      console.log(
        `${question.padEnd(24)} database ${databaseMs.toFixed(1)} ms, client ${clientMs.toFixed(1)} ms${verdict}`,
      )
    }
    if (json) console.log(JSON.stringify({ sizes, figures, bars }))
  } finally {
    await server.stop()
  }
}

interface Figure {
  readonly question: string
  readonly databaseMs: number
  readonly clientMs: number
  /** Whether it has a bar. */
  readonly promised: boolean
}

async function ask(url: string, live: number): Promise<Figure[]> {
  const pool = new pg.Pool({ connectionString: url, max: 1 })
  const leasehold = new Leasehold({ pool, log: () => {} })
  const { lane } = connectionOf('bench', leasehold)
  const { rows } = await pool.query('select pg_backend_pid() as pid')
  const limits = { oldestReadyMs: 300_000, transactionMs: 300_000 }
  const questions: Record<string, () => Promise<unknown>> = {
    'stats of all queues': () => leasehold.stats(),
    'stats of a queue': () => leasehold.stats({ queue: 'queue 3' }),
    'why, the last in line': () => leasehold.why(String(live - 2)),
    'why, claimed': () => leasehold.why('7'),
    'why, blocked': () => leasehold.why(String(live - 1)),
    'why, archived': () => leasehold.why('10000007'),
    'why, unknown': () => leasehold.why('999999999'),
    'list, newest': () => leasehold.list({ limit: 20 }),
    status: () => findTrouble(lane, limits),
  }
  const figures: Figure[] = []
  for (const [question, answer] of Object.entries(questions)) {
    const databaseMs: number[] = []
    const clientMs: number[] = []
    for (let time = 0; time < TIMES; time++) {
      const micros = processMicros(rows[0].pid) ?? 0
      const began = performance.now()
      await answer()
      clientMs.push(performance.now() - began)
      databaseMs.push(((processMicros(rows[0].pid) ?? Number.NaN) - micros) / 1_000)
    }
    const promised = /^(stats|why)/.test(question)
    figures.push({ question, databaseMs: median(databaseMs), clientMs: median(clientMs), promised })
  }
  await pool.end()
  return figures
}
