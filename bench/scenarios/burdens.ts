/** Burdens that must not make a job slower. Each drain beside a burden is paired with one without. */
import type { Client } from 'pg'
import { among, type Bench } from '../bench.ts'
import { FILL_ARCHIVE, HOLD_SNAPSHOT } from '../burdens.sql.ts'
import type { ContenderName } from '../contenders/names.ts'
import { filledDatabase } from '../filled.ts'
import { leasehold } from '../floor/designs/leasehold.ts'
import { FILL } from '../floor/floor.sql.ts'
import { costMicros, type DrainOptions, drain, warmUpJobs } from '../measure.ts'
import { pairs } from '../rounds.ts'
import type { Database } from '../server.ts'

const QUEUE = 'bench'
const TOMORROW_S = 86_400
const CLAIMED_AT_ONCE = 500
const HELD_SECONDS = 30

interface Cost {
  /** Node and database, per job. */
  readonly micros: number | null
  readonly jobs: number
}

/** The first of a million jobs against the first of few more than are drained. */
export async function backlogScenario(bench: Bench): Promise<void> {
  const { backlog, beside } = bench.sizes
  const few = fewJobs(bench)
  for (const contender of among(bench, ['leasehold', 'graphile-worker', 'pg-boss'])) {
    await comparedBy(bench, 'backlog', contender, bench.sizes.pairs, async (burdened) => {
      const jobs = burdened ? backlog : few
      const database = await filledDatabase(bench, `${contender}-${jobs}`, contender, jobs)
      return drainedCost(bench, contender, database, { style: 'backlog', jobs, until: beside + warmUpJobs(beside) })
    })
    await bench.server.forget(`${contender}-${few}`)
    // The memory scenario drains ours to its end.
    if (contender !== 'leasehold') await bench.server.forget(`${contender}-${backlog}`)
  }
}

/** Another session keeps a snapshot from before the drain: nothing that is claimed or finished can be cleaned up. */
export async function heldSnapshotScenario(bench: Bench): Promise<void> {
  for (const contender of among(bench, ['leasehold', 'graphile-worker', 'pg-boss'])) {
    const jobs = bench.sizes.heldJobs
    const count = contender === 'leasehold' ? bench.sizes.pairs : 1
    await comparedBy(bench, 'held-snapshot', contender, count, async (burdened) => {
      const database = await filledDatabase(bench, `${contender}-${jobs}`, contender, jobs)
      if (burdened) await holdSnapshot(database)
      return drainedCost(bench, contender, database, { style: 'backlog', jobs, limitSeconds: HELD_SECONDS })
    })
    await bench.server.forget(`${contender}-${jobs}`)
  }
}

/** Work for tomorrow, and finished work that is kept. */
export async function scheduledScenario(bench: Bench): Promise<void> {
  await besideOurs(bench, 'scheduled', async (db) => {
    await db.query(FILL, [bench.sizes.scheduled, QUEUE, TOMORROW_S])
    await db.query(FILL_ARCHIVE, [bench.sizes.scheduled])
  })
}

/** Jobs that another worker holds. Its lease is an hour. */
export async function inFlightScenario(bench: Bench): Promise<void> {
  await besideOurs(bench, 'in-flight', async (db) => {
    await db.query(FILL, [bench.sizes.inFlight, QUEUE, 0])
    const other = leasehold.worker(db)
    for (let taken = 0; taken < bench.sizes.inFlight; ) taken += (await other.claim(CLAIMED_AT_ONCE)).length
  })
}

/** A few more than are drained: to see that the last one has ended, the clock's own query would count what lies beside. */
function fewJobs({ sizes: { beside } }: Bench): number {
  return beside + warmUpJobs(beside) + 10_000
}

async function besideOurs(bench: Bench, scenario: string, lay: (db: Client) => Promise<void>): Promise<void> {
  const jobs = fewJobs(bench)
  const until = bench.sizes.beside + warmUpJobs(bench.sizes.beside)
  const unfinishedBeside = scenario === 'scheduled' ? bench.sizes.scheduled : bench.sizes.inFlight
  for (const contender of among(bench, ['leasehold'])) {
    await comparedBy(bench, scenario, contender, bench.sizes.pairs, async (burdened) => {
      const template = burdened ? scenario : `${contender}-${jobs}`
      const database = await filledDatabase(bench, template, contender, jobs, burdened ? lay : undefined)
      const beside = burdened ? unfinishedBeside : 0
      return drainedCost(bench, contender, database, { style: 'backlog', jobs, until, beside })
    })
    await bench.server.forget(scenario)
  }
}

async function comparedBy(
  bench: Bench,
  scenario: string,
  contender: ContenderName,
  count: number,
  run: (burdened: boolean) => Promise<Cost>,
): Promise<void> {
  let least = Number.POSITIVE_INFINITY
  const ratios = await pairs(bench, `${scenario}, ${contender}`, count, async (burdened) => {
    const { micros, jobs } = await run(burdened)
    least = Math.min(least, jobs)
    return micros
  })
  bench.results.add(scenario, contender, 'costRatio', least, ratios)
}

/** Until the database is dropped. */
async function holdSnapshot(database: Database): Promise<void> {
  const { client } = await database.connect()
  await client.query('begin isolation level repeatable read')
  await client.query(HOLD_SNAPSHOT)
}

async function drainedCost(
  bench: Bench,
  contender: ContenderName,
  database: Database,
  options: DrainOptions,
): Promise<Cost> {
  const span = await drain(bench, contender, database, options)
  await database.drop()
  return { micros: costMicros(span), jobs: span.jobs }
}
