/** A fleet that has nothing to do, one that loses a worker, and what another worker moves. */
import { setTimeout } from 'node:timers/promises'
import { BUCKETS } from '../../src/core/bucket.ts'
import { moved, ringMap } from '../../src/ring/map.ts'
import { among, type Bench, freshDatabase, withProcess } from '../bench.ts'
import { untilFinished } from '../measure.ts'
import { monotonicMs } from '../process/protocol.ts'
import type { Remote } from '../process/remote.ts'
import { interleaved } from '../rounds.ts'
import type { Database } from '../server.ts'

export const IDLE_WORKERS = 16
const CONTENDERS = ['leasehold-ring', 'leasehold-keyed'] as const
/** By then each has its lines, and has taken its part in housekeeping for the first time. */
const SETTLE_MS = 4_000
/** After a kill a job of each key is enqueued, and most keys have buckets of their own. */
const KEYS = 200
const TAKEOVER_SECONDS = 60
const JOINS = [4, 8]

/** Counted where each process writes to its sockets, whatever it is for: process/statements.ts. */
export async function idleFleet(bench: Bench): Promise<void> {
  const { idleSeconds } = bench.sizes.fleet
  const runs = await interleaved(
    bench,
    'fleet-idle',
    among(bench, CONTENDERS),
    async (contender) => {
      const database = await freshDatabase(bench, contender)
      const result = await withWorkers(bench, contender, database, IDLE_WORKERS, async (remotes) => {
        await setTimeout(SETTLE_MS)
        const before = await statementsOf(remotes)
        await setTimeout(idleSeconds * 1_000)
        const after = await statementsOf(remotes)
        return (after.statements - before.statements) / ((after.atMs - before.atMs) / 1_000) / IDLE_WORKERS
      })
      await database.drop()
      return { result, said: `${result.toFixed(2)} statements a second` }
    },
    () => 1,
  )
  for (const [contender, each] of runs)
    bench.results.add('fleet-idle', `${contender} × ${IDLE_WORKERS}`, 'statementsPerSecond', 0, each)
}

/** Two workers that are idle; one is killed. Its seat is taken from it when its lease has expired. */
export async function takeovers(bench: Bench): Promise<void> {
  for (const contender of among(bench, ['leasehold-ring'])) {
    const seconds: number[] = []
    for (let round = 0; round < bench.sizes.fleet.takeovers; round++) {
      const database = await freshDatabase(bench, contender)
      const took = await withWorkers(bench, contender, database, 2, async ([killed]) => {
        await setTimeout(SETTLE_MS)
        const killedAt = monotonicMs()
        await killed!.kill()
        const jobs = { url: database.url, from: 0, to: KEYS, keys: KEYS, warmUp: 0 }
        await withProcess(bench, contender, (producer) => producer.call('fill', jobs))
        await untilFinished(bench, contender, database, 0, TAKEOVER_SECONDS)
        return (monotonicMs() - killedAt) / 1_000
      })
      await database.drop()
      bench.say(`fleet-takeover, round ${round + 1}: ${took.toFixed(1)} s`)
      seconds.push(took)
    }
    bench.results.add('fleet-takeover', `${contender} × 2`, 'takeoverSeconds', KEYS, seconds)
  }
}

/** Computed, not observed: every worker computes the same map from the same seats (test/ring). */
export function movedByAJoin(bench: Bench): void {
  for (const contender of among(bench, ['leasehold-ring'])) {
    for (const seats of JOINS) {
      const { count } = moved(mapOf(seats - 1), mapOf(seats))
      bench.results.add('fleet-moved', `${contender} × ${seats}`, 'movedPercent', 0, [(100 * count) / BUCKETS])
    }
  }
}

function mapOf(seats: number): Uint16Array {
  return ringMap(
    'consistent',
    Array.from({ length: seats }, (_, at) => ({ number: at + 1, weight: 1 })),
  )
}

async function withWorkers<Result>(
  bench: Bench,
  contender: (typeof CONTENDERS)[number],
  { url }: Database,
  count: number,
  use: (remotes: readonly Remote[]) => Promise<Result>,
): Promise<Result> {
  const remotes = Array.from({ length: count }, () => bench.start(contender))
  try {
    const options = { url, style: 'latency', jobs: KEYS, marks: [] } as const
    await Promise.all(remotes.map((remote) => remote.call('work', options)))
    return await use(remotes)
  } finally {
    await Promise.all(remotes.map((remote) => remote.end()))
  }
}

async function statementsOf(remotes: readonly Remote[]): Promise<{ statements: number; atMs: number }> {
  const usages = await Promise.all(remotes.map((remote) => remote.call('usage', {})))
  return { statements: usages.reduce((sum, { statements }) => sum + statements, 0), atMs: monotonicMs() }
}
