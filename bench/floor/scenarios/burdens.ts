/**
 * Burdens that must not make a claim slower: an open snapshot, a long backlog, work for later, work in flight, other kinds.
 */
import type { Client } from 'pg'
import { makeInputs } from '../../inputs.ts'
import type { Session } from '../../server.ts'
import { medianOrNull } from '../../statistics.ts'
import type { Bench } from '../bench.ts'
import type { BenchWorker, Design } from '../designs/design.ts'
import { leasehold, noMark, QUEUE } from '../designs/leasehold.ts'
import { specTable } from '../designs/spec-table.ts'
import { FILL } from '../floor.sql.ts'
import { drain, enqueueAll, Tally, warmUp, warmUpJobs } from '../load.ts'
import { measure } from '../measure.ts'
import type { Ratio } from '../results.ts'

const CONNECTIONS = 3
const BATCH = 500
const YEAR_S = 365 * 86_400

interface Cost {
  /** Node and the workers' sessions, per job. */
  readonly micros: number | null
  readonly firstClaimMs: number | null
}

/**
 * Another session opens a snapshot after the enqueue and keeps it: nothing that is claimed or finished can be cleaned up.
 */
export async function heldSnapshotScenario(bench: Bench): Promise<void> {
  for (const design of [leasehold, noMark, specTable]) {
    const jobs = design === leasehold ? bench.sizes.jobs : bench.sizes.melting
    const inputs = makeInputs(jobs, 120)
    for (const batch of bench.sizes.batches) {
      const title = `held-snapshot, ${design.name}, batches of ${batch}`
      const count = design === leasehold ? bench.sizes.pairs : bench.sizes.rounds
      const costs = await pairs(bench, title, count, (burdened) =>
        drainUnderSnapshot(bench, design, inputs, batch, burdened),
      )
      const ratio = summary('held-snapshot', design.name, batch, jobs, costs)
      bench.results.ratios.push(ratio)
      if (design === leasehold) bench.results.atMost(`held-snapshot, batches of ${batch}`, ratio.ratio, 1.2)
    }
  }
}

export function backlogScenario(bench: Bench): Promise<void> {
  return drainBeside(bench, 'backlog-1m', 1.3, bench.sizes.backlog, (db) => fill(db, bench.sizes.backlog, QUEUE))
}

export function scheduledScenario(bench: Bench): Promise<void> {
  return drainBeside(bench, 'scheduled-1m', 1.3, bench.sizes.scheduled, (db) =>
    fill(db, bench.sizes.scheduled, QUEUE, YEAR_S),
  )
}

export function inFlightScenario(bench: Bench): Promise<void> {
  return drainBeside(bench, 'in-flight-20k', 1.3, bench.sizes.inFlight, async (db) => {
    await fill(db, bench.sizes.inFlight, QUEUE)
    const worker = leasehold.worker(db)
    for (let taken = 0; taken < bench.sizes.inFlight; ) taken += (await worker.claim(BATCH)).length
  })
}

export function otherKindScenario(bench: Bench): Promise<void> {
  return drainBeside(bench, 'other-kind-300k', 1.3, bench.sizes.otherKind, (db) =>
    fill(db, bench.sizes.otherKind, 'unknown_here'),
  )
}

async function drainUnderSnapshot(
  bench: Bench,
  design: Design,
  inputs: readonly unknown[],
  batch: number,
  burdened: boolean,
): Promise<Cost> {
  const database = await bench.server.clone(design.name, design.setup)
  await enqueueAll(design.producer(database.main), inputs)
  const holder = await database.connect()
  if (burdened) {
    await holder.client.query('begin isolation level repeatable read')
    await holder.client.query(`select 1 from ${design.table} limit 1`)
  }
  const sessions = await Promise.all(Array.from({ length: CONNECTIONS }, database.connect))
  const tally = new Tally()
  const micros = await costOf(bench, sessions, workersOn(design, sessions), tally, batch, inputs.length)
  await tally.check(database.main, design)
  await database.close([holder, ...sessions])
  await database.drop()
  return { micros, firstClaimMs: null }
}

/** Drains so many jobs beside a burden, and as many from a queue that holds nothing else. */
async function drainBeside(
  bench: Bench,
  scenario: string,
  bar: number,
  burden: number,
  prepare: (db: Client) => Promise<void>,
): Promise<void> {
  const jobs = bench.sizes.beside + warmUpJobs(CONNECTIONS, BATCH)
  // Neither queue runs dry: the last, short batches are another matter.
  const stored = jobs + CONNECTIONS * BATCH
  const calm = async (db: Client) => {
    await leasehold.setup(db)
    await fill(db, stored, QUEUE)
  }
  const heavy = async (db: Client) => {
    await leasehold.setup(db)
    await prepare(db)
    await fill(db, stored, QUEUE)
  }
  const costs = await pairs(bench, scenario, bench.sizes.pairs, async (burdened) => {
    const database = await bench.server.clone(burdened ? scenario : 'calm', burdened ? heavy : calm)
    const sessions = await Promise.all(Array.from({ length: CONNECTIONS }, database.connect))
    const workers = workersOn(leasehold, sessions)
    const tally = new Tally()
    const firstClaimMs = await warmUp(workers, tally, BATCH)
    const micros = await costOf(bench, sessions, workers, tally, BATCH, jobs - tally.claims)
    await tally.check(database.main, leasehold, (burdened ? burden : 0) + stored - tally.claims)
    await database.close(sessions)
    await database.drop()
    return { micros, firstClaimMs }
  })
  await bench.server.forget(scenario)
  const ratio = summary(scenario, leasehold.name, BATCH, bench.sizes.beside, costs)
  bench.results.ratios.push(ratio)
  bench.results.atMost(scenario, ratio.ratio, bar)
}

async function costOf(
  bench: Bench,
  sessions: readonly Session[],
  workers: readonly BenchWorker[],
  tally: Tally,
  batch: number,
  jobs: number,
): Promise<number | null> {
  const before = tally.completed
  const usage = await measure(bench.server, sessions, () => drain(workers, tally, batch, jobs))
  return usage.sessionMicros === null ? null : (usage.sessionMicros + usage.nodeMicros) / (tally.completed - before)
}

/** Each pair runs its two halves one after the other, every second pair the other way round. */
async function pairs(
  bench: Bench,
  title: string,
  count: number,
  run: (burdened: boolean) => Promise<Cost>,
): Promise<{ calm: Cost[]; burdened: Cost[] }> {
  const calm: Cost[] = []
  const burdened: Cost[] = []
  for (let round = 0; round < count; round++) {
    for (const half of round % 2 === 0 ? [calm, burdened] : [burdened, calm]) half.push(await run(half === burdened))
    const micros = [calm[round]!.micros, burdened[round]!.micros].map((value) => value?.toFixed(1) ?? '?')
    bench.say(`${title}, pair ${round + 1}: ${micros[0]} and ${micros[1]} µs`)
  }
  return { calm, burdened }
}

function summary(
  scenario: string,
  design: string,
  batch: number,
  jobs: number,
  { calm, burdened }: { calm: readonly Cost[]; burdened: readonly Cost[] },
): Ratio {
  const ratios = calm.map((cost, pair) => {
    const other = burdened[pair]!.micros
    return cost.micros === null || other === null ? null : other / cost.micros
  })
  return {
    scenario,
    design,
    batch,
    jobs,
    calmMicros: medianOrNull(calm.map((cost) => cost.micros)),
    burdenedMicros: medianOrNull(burdened.map((cost) => cost.micros)),
    ratio: medianOrNull(ratios),
    pairs: ratios,
    firstClaimMs: medianOrNull(burdened.map((cost) => cost.firstClaimMs)),
  }
}

function workersOn(design: Design, sessions: readonly Session[]): BenchWorker[] {
  return sessions.map(({ client }) => design.worker(client))
}

async function fill(db: Client, jobs: number, kind: string, dueInSeconds = 0): Promise<void> {
  await db.query(FILL, [jobs, kind, dueInSeconds])
}
