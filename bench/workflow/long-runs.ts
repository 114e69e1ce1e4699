/** One long run: what its last steps cost beside its first, and what it costs to resume it. */
import { Leasehold, Snooze } from '../../src/index.ts'
import { handleRuns, type Run, start, workflow } from '../../src/workflow/index.ts'
import { serverMicros } from '../processors.ts'
import type { BenchServer, Database } from '../server.ts'
import { median } from '../statistics.ts'
import { atMost, type Bar } from '../weather/bar.ts'

const PART = 100
const MICROS = 1e6

export async function longRuns(server: BenchServer, steps: number, rounds: number): Promise<Bar[]> {
  const ratios: number[] = []
  for (let round = 0; round < rounds; round++) ratios.push(await costOfTheLast(server, steps))
  const resume = await costsToResume(server, [steps / 2, steps, 2 * steps, 4 * steps], rounds)
  // Twice as many take at most twice as long, and what every claim costs is in both.
  const twice = (many: number) =>
    atMost(`resume of ${many} ÷ of ${many / 2} recorded steps`, resume(many) / resume(many / 2), 'times', 2.2)
  return [
    atMost(`steps ${steps - PART + 1} to ${steps} ÷ steps 1 to ${PART}, processor time`, median(ratios), 'times', 1.2),
    atMost(`resume of a run with ${steps} recorded steps, processor time`, resume(steps) / MICROS, 's', 1),
    twice(steps),
    twice(4 * steps),
  ]
}

async function fresh(server: BenchServer): Promise<{ database: Database; leasehold: Leasehold }> {
  const database = await server.clone('leasehold', async (_main, url) => {
    const made = new Leasehold({ connectionString: url, log: () => {} })
    await made.migrate()
    await made.close()
  })
  return { database, leasehold: new Leasehold({ connectionString: database.url, log: () => {} }) }
}

/** Processor time of this process and of the server. */
function spent(server: BenchServer): number {
  const { user, system } = process.cpuUsage()
  return user + system + (serverMicros(server.postmaster) ?? 0)
}

async function costOfTheLast(server: BenchServer, steps: number): Promise<number> {
  const { database, leasehold } = await fresh(server)
  const at: number[] = []
  const long = workflow<null, void>('long', {}, async (run) => {
    for (let n = 0; n <= steps; n++) {
      if (n % PART === 0) at.push(spent(server))
      if (n < steps) await run.step('step', () => n)
    }
  })
  // The first run warms up.
  for (let run = 0; run < 2; run++) {
    at.length = 0
    await start(leasehold, long, null)
    await leasehold.drain([handleRuns(long)])
  }
  await leasehold.close()
  await database.drop()
  return (at.at(-1)! - at.at(-2)!) / (at[1]! - at[0]!)
}

/**
 * Medians by the number of recorded steps. The sizes take turns in one process, after a round that warms it up: a process that has
 * just started spends more on compiling than on the steps.
 */
async function costsToResume(
  server: BenchServer,
  sizes: readonly number[],
  rounds: number,
): Promise<(steps: number) => number> {
  const { database, leasehold } = await fresh(server)
  const costs = new Map<number, number[]>(sizes.map((steps) => [steps, []]))
  for (let round = 0; round <= rounds; round++) {
    for (const steps of sizes) {
      const cost = await costToResume(server, leasehold, steps)
      if (round > 0) costs.get(steps)!.push(cost)
    }
  }
  await leasehold.close()
  await database.drop()
  return (steps) => median(costs.get(steps)!)
}

/** From the claim to the first call that is not on record. */
async function costToResume(server: BenchServer, leasehold: Leasehold, steps: number): Promise<number> {
  let isResumed = false
  const code = async (run: Run) => {
    for (let n = 0; n < steps; n++) await run.step(['step', n], () => ({ n }))
    if (!isResumed) throw new Snooze(0)
  }
  const long = workflow<null, void>('long', {}, code)
  await start(leasehold, long, null)
  await leasehold.runOnce([handleRuns(long)])
  isResumed = true
  const before = spent(server)
  await leasehold.runOnce([handleRuns(long)])
  return spent(server) - before
}
