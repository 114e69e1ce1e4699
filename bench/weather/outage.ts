/** The network of a whole fleet is gone for one lease, while handlers run that take three: how long until all run again. */
import { setTimeout as sleep } from 'node:timers/promises'
import { handle, type Job, kind, Leasehold } from '../../src/index.ts'
import { startFaultyProxy } from '../../tools/faulty-proxy.ts'
import type { BenchServer } from '../server.ts'
import { atMost, type Bar } from './bar.ts'

const WORKERS = 8
const CONCURRENCY = 20
const LEASE_MS = 3_000
const SWEEP_MS = 500
const GIVE_UP_MS = 60_000
const task = kind<number>('task')

export async function outageWeather(server: BenchServer): Promise<Bar[]> {
  const jobs = WORKERS * CONCURRENCY
  const database = await server.clone('weather-outage', async (_, url) => {
    const filling = new Leasehold({ connectionString: url })
    await filling.migrate()
    await filling.close()
  })
  const { hostname, port } = new URL(database.url)
  const proxy = await startFaultyProxy({ host: hostname, port: Number(port) })
  /** Jobs whose last handler was not aborted. */
  const alive = new Set<string>()

  const work = async ({ id, signal }: Job<number>) => {
    alive.add(id)
    try {
      await sleep(3 * LEASE_MS, undefined, { signal })
    } catch (error) {
      alive.delete(id)

      throw error
    }
  }
  const fleet = Array.from({ length: WORKERS }, () => {
    const own = new Leasehold({ connectionString: proxy.url(database.url), log: () => {} })
    const options = { concurrency: CONCURRENCY, prefetch: 0, lease: LEASE_MS, sweep: SWEEP_MS, signals: [] }
    const worker = own.worker([handle(task, work)], options)
    return { own, worker, running: worker.run() }
  })
  const direct = new Leasehold({ connectionString: database.url })
  try {
    await direct.enqueueMany(
      task,
      Array.from({ length: jobs }, (_, input) => ({ input })),
    )
    await until(() => alive.size === jobs)
    proxy.freeze()
    await sleep(LEASE_MS)
    proxy.thaw()
    const began = performance.now()
    await until(() => alive.size === jobs)
    const againMs = performance.now() - began
    const crashed = "select count(*)::int as crashed from leasehold.job_attempt where outcome = 'crashed'"
    const { rows } = await database.main.query(crashed)
    const name = `${jobs} handlers run again after an outage of one lease of ${LEASE_MS} ms`
    return [
      atMost(name, againMs, 'ms', 3 * LEASE_MS + SWEEP_MS),
      atMost('crashes counted in it', rows[0].crashed, 'jobs', 0),
    ]
  } finally {
    await Promise.all(fleet.map(({ worker }) => worker.stop({ grace: 0 })))
    await Promise.all(fleet.map(({ own, running }) => Promise.all([own.close(), running])))
    await direct.close()
    await proxy.stop()
    await database.drop()
  }
}

async function until(isSo: () => boolean): Promise<void> {
  const began = performance.now()
  while (!isSo() && performance.now() - began < GIVE_UP_MS) await sleep(10)
}
