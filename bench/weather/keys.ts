/**
 * Idempotency keys of 1,000 jobs a second, through a month. The clock moves a day at a time, and each day a worker has one
 * turn of its prune duty, for the keys of 15 s: a real one has a turn for those of 10 min, so how fast a turn goes is
 * measured as well. Keys that are kept for a year lie in between. The table must not grow once the first keys are free.
 */
import type pg from 'pg'
import { handle, kind, Leasehold } from '../../src/index.ts'
import type { BenchServer } from '../server.ts'
import type { Bar } from './bar.ts'
import { ADD_KEYS, COUNT_KEYS, MOVABLE_CLOCK, NEXT_DAY } from './keys.sql.ts'

const DAYS = 30
const KEYS_A_DAY = 15_000
const KEPT_FOR_A_YEAR = 15_000
/** From this day on as many keys are free as are added. */
const FLAT_FROM = 3
const JOBS_PER_SECOND = 1_000
const GROWS_AT_MOST = 1.05

const task = kind<number>('task')

export async function keysWeather(server: BenchServer): Promise<Bar[]> {
  const database = await server.clone('weather-keys', async (main, url) => {
    const own = new Leasehold({ connectionString: url })
    await own.migrate()
    await own.close()
    await main.query(MOVABLE_CLOCK)
  })
  const { main } = database
  const leasehold = new Leasehold({ connectionString: database.url, log: () => {} })
  try {
    await main.query(ADD_KEYS, [0, KEPT_FOR_A_YEAR, '365 days'])
    const sizes: number[] = []
    let pruned = 0
    let tookMs = 0
    for (let day = 1; day <= DAYS; day++) {
      await main.query(ADD_KEYS, [day, KEYS_A_DAY, '24 hours'])
      await main.query(NEXT_DAY)
      const before = await count(main)
      const since = performance.now()
      await leasehold.drain([handle(task, () => {})]) // Takes the duties that are due, once.
      const after = await count(main)
      if (after < before) tookMs += performance.now() - since
      pruned += before - after
      sizes.push(after)
    }
    const growth = Math.max(...sizes.slice(FLAT_FROM)) / sizes[FLAT_FROM - 1]!
    const speed = pruned / (tookMs / 1_000)
    return [
      bar(
        'keys after a month, as a multiple of those after three days',
        growth,
        'times',
        GROWS_AT_MOST,
        growth <= GROWS_AT_MOST,
      ),
      bar('keys pruned while a turn lasts', speed, 'keys/s', JOBS_PER_SECOND, speed >= JOBS_PER_SECOND),
    ]
  } finally {
    await leasehold.close()
    await database.drop()
  }
}

function bar(name: string, value: number, unit: string, limit: number, holds: boolean): Bar {
  return { name, value: Math.round(value * 100) / 100, unit, bar: limit, holds }
}

async function count(main: pg.Client): Promise<number> {
  return (await main.query(COUNT_KEYS)).rows[0].keys
}
