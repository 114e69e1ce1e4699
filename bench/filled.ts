/** Databases that take long to fill are filled once and cloned. */
import type { Client } from 'pg'
import { type Bench, setUp } from './bench.ts'
import type { ContenderName } from './contenders/names.ts'
import { fill } from './measure.ts'
import type { Database } from './server.ts'

/** Holds so many jobs, enqueued through the contender, and what `lay` put beside them before. Vacuumed and analyzed. */
export async function filledDatabase(
  bench: Bench,
  template: string,
  contender: ContenderName,
  jobs: number,
  lay?: (db: Client) => Promise<void>,
): Promise<Database> {
  const database = await bench.server.clone(template, async (main, url) => {
    bench.say(`filling ${template}`)
    await setUp(bench, contender, url)
    await lay?.(main)
    await fill(bench, contender, url, jobs)
    await main.query('vacuum (analyze)')
  })
  await bench.server.admin.query('checkpoint')
  return database
}
