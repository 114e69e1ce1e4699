/** Design against design: how fast, at what cost. */

import { makeInputs } from '../../inputs.ts'
import { median, medianOrNull } from '../../statistics.ts'
import type { Bench } from '../bench.ts'
import type { Design } from '../designs/design.ts'
import { jsonPayload, leasehold, noMark, notKept, waitingLock } from '../designs/leasehold.ts'
import { specTable, specTableArchived } from '../designs/spec-table.ts'
import { drain, ENQUEUE_BATCH, enqueueAll, flow, Tally } from '../load.ts'
import { hotShare, measure, type Usage } from '../measure.ts'
import type { Figure } from '../results.ts'

const SMALL_BYTES = 120
const LARGE_BYTES = 1_500
const BACKLOG = 20_000

interface Run {
  readonly usage: Usage
  readonly hotShare: number | null
  readonly retries: number
}

/** Not reported: lets this process compile its hot paths and the server make its log segments. */
export async function warmUpScenario(bench: Bench): Promise<void> {
  bench.say('warm-up')
  const inputs = makeInputs(Math.min(bench.sizes.jobs, 20_000), SMALL_BYTES)
  for (const design of [leasehold, specTable]) await drainOnce(bench, design, inputs, 500)
}

/** All is enqueued, then three connections empty the queue. */
export async function drainScenario(bench: Bench): Promise<void> {
  const designs = [leasehold, notKept, specTable, specTableArchived, noMark, jsonPayload, waitingLock]
  const inputs = makeInputs(bench.sizes.jobs, SMALL_BYTES)
  const enqueues = new Map<Design, Run[]>()
  for (const batch of bench.sizes.batches) {
    const drains = await interleaved(bench, `drain, batches of ${batch}`, designs, async (design) => {
      const { put, taken } = await drainOnce(bench, design, inputs, batch)
      enqueues.set(design, [...(enqueues.get(design) ?? []), put])
      return taken
    })
    const common = { scenario: 'drain', phase: 'drain', batch, payloadBytes: SMALL_BYTES } as const
    for (const [design, runs] of drains) bench.results.figures.push(summary(design, runs, inputs.length, common))
  }
  const common = { scenario: 'drain', phase: 'enqueue', batch: ENQUEUE_BATCH, payloadBytes: SMALL_BYTES } as const
  for (const [design, runs] of enqueues) bench.results.figures.push(summary(design, runs, inputs.length, common))
}

/** One connection enqueues while two claim and complete. Everything counts. */
export async function steadyScenario(bench: Bench): Promise<void> {
  const batch = 500
  const inputs = makeInputs(bench.sizes.jobs, SMALL_BYTES)
  const designs = [leasehold, notKept, specTable, specTableArchived]
  const runs = await interleaved(bench, 'steady', designs, (design) => flowOnce(bench, design, inputs, batch))
  const common = { scenario: 'steady', phase: 'all', batch, payloadBytes: SMALL_BYTES } as const
  for (const [design, own] of runs) bench.results.figures.push(summary(design, own, inputs.length, common))
}

/** How many claims are heap-only updates, for small payloads and for large ones. */
export async function hotShareScenario(bench: Bench): Promise<void> {
  for (const payloadBytes of [SMALL_BYTES, LARGE_BYTES]) {
    bench.say(`hot-share, payloads of ${payloadBytes} bytes`)
    const inputs = makeInputs(bench.sizes.hotShareJobs, payloadBytes)
    const { taken } = await drainOnce(bench, leasehold, inputs, 500)
    const common = { scenario: 'hot-share', phase: 'drain', batch: 500, payloadBytes } as const
    bench.results.figures.push(summary(leasehold, [taken], inputs.length, common))
    bench.results.atLeast(`hot-share at ${payloadBytes} bytes`, taken.hotShare, 0.95)
  }
}

async function drainOnce(bench: Bench, design: Design, inputs: readonly unknown[], batch: number) {
  const { server } = bench
  const database = await server.clone(design.name, design.setup)
  const sessions = await Promise.all([database.connect(), database.connect(), database.connect()])
  const put = design.producer(sessions[0].client)
  const enqueued = await measure(server, sessions, () => enqueueAll(put, inputs))

  const workers = sessions.map(({ client }) => design.worker(client))
  const tally = new Tally()
  const usage = await measure(server, sessions, () => drain(workers, tally, batch, inputs.length))
  await tally.check(database.main, design)
  await database.close(sessions)
  const share = await hotShare(database.main, design.table, inputs.length * design.updatesPerJob)
  await database.drop()
  return {
    put: { usage: enqueued, hotShare: null, retries: 0 } satisfies Run,
    taken: { usage, hotShare: share, retries: tally.sentAgain } satisfies Run,
  }
}

async function flowOnce(bench: Bench, design: Design, inputs: readonly unknown[], batch: number): Promise<Run> {
  const { server } = bench
  const database = await server.clone(design.name, design.setup)
  const sessions = await Promise.all([database.connect(), database.connect(), database.connect()])
  const put = design.producer(sessions[0].client)
  const workers = sessions.slice(1).map(({ client }) => design.worker(client))
  const tally = new Tally()
  const usage = await measure(server, sessions, () => flow(put, workers, inputs, tally, { batch, backlog: BACKLOG }))
  await tally.check(database.main, design)
  await database.close(sessions)
  const share = await hotShare(database.main, design.table, inputs.length * design.updatesPerJob)
  await database.drop()
  return { usage, hotShare: share, retries: tally.sentAgain }
}

/** Round by round and design by design, each round starting with another one, so that noise of the machine hits all. */
async function interleaved(
  bench: Bench,
  title: string,
  designs: readonly Design[],
  run: (design: Design) => Promise<Run>,
): Promise<Map<Design, Run[]>> {
  const runs = new Map<Design, Run[]>(designs.map((design) => [design, []]))
  for (let round = 0; round < bench.sizes.rounds; round++) {
    for (let at = 0; at < designs.length; at++) {
      const design = designs[(at + round) % designs.length]!
      const done = await run(design)
      runs.get(design)!.push(done)
      bench.say(
        `${title}, round ${round + 1}: ${design.name} ${Math.round(bench.sizes.jobs / done.usage.seconds)} jobs/s`,
      )
    }
  }
  return runs
}

function summary(
  design: Design,
  runs: readonly Run[],
  jobs: number,
  common: Pick<Figure, 'scenario' | 'phase' | 'batch' | 'payloadBytes'>,
): Figure {
  const perJob = (of: (usage: Usage) => number) => median(runs.map(({ usage }) => of(usage) / jobs))
  const perJobOrNull = (of: (usage: Usage) => number | null) => {
    const total = medianOrNull(runs.map(({ usage }) => of(usage)))
    return total === null ? null : total / jobs
  }
  return {
    ...common,
    design: design.name,
    jobs,
    rounds: runs.length,
    jobsPerSecond: 1 / perJob((usage) => usage.seconds),
    databaseMicros: perJobOrNull((usage) => usage.sessionMicros),
    nodeMicros: perJob((usage) => usage.nodeMicros),
    otherMicros: perJobOrNull((usage) => usage.otherMicros),
    walBytes: perJob((usage) => usage.walBytes),
    walImageBytes: perJobOrNull((usage) => usage.walImageBytes),
    hotShare: medianOrNull(runs.map((run) => run.hotShare)),
    retries: median(runs.map((run) => run.retries)),
  }
}
