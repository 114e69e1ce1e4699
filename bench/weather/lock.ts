/** A minute in which another session has locked leasehold.job: how many backends pile up behind it. */
import { setTimeout as sleep } from 'node:timers/promises'
import { handle, kind, Leasehold } from '../../src/index.ts'
import type { BenchServer, Database } from '../server.ts'
import type { Bar } from './bar.ts'

const WORKERS = 8
const LOCKED_MS = 60_000
const BEFORE_MS = 5_000
const AFTER_MS = 10_000
const LOOK_EVERY_MS = 250
const MORE_BACKENDS = 10

const task = kind<number>('task')

export async function lockWeather(server: BenchServer): Promise<Bar[]> {
  const database = await server.clone('weather-lock', async (_main, url) => {
    const own = new Leasehold({ connectionString: url })
    await own.migrate()
    await own.close()
  })
  let handled = 0
  const fleet = Array.from({ length: WORKERS }, () => {
    const own = new Leasehold({ connectionString: database.url, log: () => {} })
    const worker = own.worker([handle(task, () => void handled++)], { signals: [] })
    return { own, worker, running: worker.run() }
  })
  const producing = produce(fleet[0]!.own)
  try {
    const normal = await mostBackends(database, BEFORE_MS)
    const { client } = await database.connect()
    await client.query('begin; lock table leasehold.job')
    const locked = await mostBackends(database, LOCKED_MS)
    const before = handled
    await client.query('commit')
    await client.end()
    const after = await mostBackends(database, AFTER_MS)
    const more = Math.max(locked, after) - normal - 1 // The session that holds the lock.
    const name = `${WORKERS} workers, leasehold.job locked for ${LOCKED_MS / 1000} s`
    const later = handled - before
    return [
      { name, value: more, unit: 'backends more', bar: MORE_BACKENDS, holds: more <= MORE_BACKENDS },
      { name: 'after the lock', value: later, unit: 'jobs handled', bar: 1, holds: later >= 1 },
    ]
  } finally {
    await producing.stop()
    await Promise.all(fleet.map(({ worker }) => worker.stop({ grace: 0 })))
    await Promise.all(fleet.map(({ own, running }) => Promise.all([own.close(), running])))
    await database.drop()
  }
}

/** Some work all the time, one job after the other: a pool that fills to its own limit is not what is measured. */
function produce(leasehold: Leasehold): { stop(): Promise<void> } {
  let stopped = false
  const run = async () => {
    for (let n = 0; !stopped; n++) {
      await leasehold.enqueue(task, n).catch(() => {})
      await sleep(20)
    }
  }
  const running = run()
  return {
    stop: async () => {
      stopped = true
      await running
    },
  }
}

async function mostBackends({ main }: Database, forMs: number): Promise<number> {
  let most = 0
  const until = performance.now() + forMs
  while (performance.now() < until) {
    const { rows } = await main.query(
      "select count(*)::int as backends from pg_stat_activity where datname = current_database() and backend_type = 'client backend'",
    )
    most = Math.max(most, rows[0].backends)
    await sleep(LOOK_EVERY_MS)
  }
  return most
}
