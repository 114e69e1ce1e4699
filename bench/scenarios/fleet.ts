/**
 * A queue on the ring beside the same jobs in one that is not: eight worker processes, one alone, and producers. Every drain checks
 * that each job was handled once.
 */
import { among, type Bench } from '../bench.ts'
import type { ContenderName } from '../contenders/names.ts'
import type { Line } from '../order-lines.ts'
import { interleaved } from '../rounds.ts'
import { addSpans, saidPerSecond } from '../spans.ts'
import { claimsBehindOthers } from './fleet-claims.ts'
import { idleFleet, movedByAJoin, takeovers } from './fleet-idle.ts'
import { enqueues } from './order.ts'
import { filled, forget } from './order-claims.ts'
import { drainTogether, type Load } from './workers.ts'

const CONTENDERS = ['leasehold-keyed', 'leasehold-ring', 'leasehold-ordered', 'leasehold-ordered-ring'] as const
const UNORDERED = ['leasehold-keyed', 'leasehold-ring'] as const
const WORKERS = 8

export async function fleetScenario(bench: Bench): Promise<void> {
  const { jobs, slowJobs, keys, enqueued, singles } = bench.sizes.fleet
  const instant: Load = { scenario: 'fleet', style: 'backlog', handlerMs: 0, jobs, markEvery: 250 }
  const slow: Load = { scenario: 'fleet-5-ms', style: 'handlers-50', handlerMs: 5, jobs: slowJobs, markEvery: 50 }
  for (const load of [instant, slow]) {
    await drains(bench, load, WORKERS, CONTENDERS, bench.sizes.fleet.rounds)
    await drains(bench, load, 1, UNORDERED, bench.sizes.fewerRounds)
    for (const contender of CONTENDERS) await forget(bench, contender, [fleetLine(load.jobs, keys)])
  }
  await claimsBehindOthers(bench)
  await idleFleet(bench)
  await enqueues(bench, 'fleet-enqueue', UNORDERED, enqueued, keys)
  await enqueues(bench, 'fleet-single', UNORDERED, singles, keys, 1)
  await takeovers(bench)
  movedByAJoin(bench)
}

/** Drawn, as keys come in practice: in turns, without the ring the jobs of a claim would lie beside each other in the table. */
function fleetLine(jobs: number, keys: number): Line[number] {
  return { jobs, keys, keyOrder: 'drawn' }
}

async function drains(
  bench: Bench,
  load: Load,
  processes: number,
  contenders: readonly ContenderName[],
  rounds: number,
): Promise<void> {
  const run = async (contender: ContenderName) => {
    const database = await filled(bench, contender, [fleetLine(load.jobs, bench.sizes.fleet.keys)])
    const remotes = Array.from({ length: processes }, () => bench.start(contender))
    try {
      const result = await drainTogether(bench, contender, database, remotes, load)
      const micros = (result.nodeMicros + (result.databaseMicros ?? 0)) / result.jobs
      return { result, said: `${saidPerSecond(result)}, ${micros.toFixed(1)} µs a job` }
    } finally {
      await Promise.all(remotes.map((remote) => remote.end()))
      await database.drop()
    }
  }
  const title = `${load.scenario} × ${processes}`
  const runs = await interleaved(bench, title, among(bench, contenders), run, () => rounds)
  for (const [contender, spans] of runs) addSpans(bench, load.scenario, `${contender} × ${processes}`, spans)
}
