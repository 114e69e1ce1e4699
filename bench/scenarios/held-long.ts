/**
 * Minutes of steady work while another session keeps a snapshot from before: no row version that is claimed, completed or
 * deleted meanwhile can be cleaned up, and what is left behind adds up. A queue that reads past it pays more for each job,
 * until it falls behind.
 */
import { setTimeout } from 'node:timers/promises'
import { among, type Bench, freshDatabase, withProcess } from '../bench.ts'
import { HOLD_SNAPSHOT } from '../burdens.sql.ts'
import type { ContenderName } from '../contenders/names.ts'
import { countUnfinished } from '../measure.ts'
import { monotonicMs } from '../process/protocol.ts'
import type { Remote } from '../process/remote.ts'
import type { Database } from '../server.ts'

const PER_SECOND = 2_000
const BATCH = 20
const FIFTHS = 5
/** Jobs still come while the last fifth ends. */
const TAIL_SECONDS = 1
const STYLE = 'steady'

interface Moment {
  readonly atMs: number
  readonly handled: number
  /** The worker process and the whole server, autovacuum and the producer's backend included. */
  readonly micros: number | null
}

interface Outcome {
  readonly jobs: number
  readonly costRatio: number | null
  readonly backlogSeconds: number
}

export async function heldLongScenario(bench: Bench): Promise<void> {
  for (const contender of among(bench, ['leasehold', 'graphile-worker', 'pg-boss'])) {
    const database = await freshDatabase(bench, contender)
    await database.main.query('vacuum (analyze)')
    const { client } = await database.connect()
    await client.query('begin isolation level repeatable read')
    await client.query(HOLD_SNAPSHOT)
    const { jobs, costRatio, backlogSeconds } = await flow(bench, contender, database)
    await database.drop()
    bench.results.add('held-snapshot-long', contender, 'costRatio', jobs, [costRatio])
    bench.results.add('held-snapshot-long', contender, 'backlogSeconds', jobs, [backlogSeconds])
  }
}

function flow(bench: Bench, contender: ContenderName, database: Database): Promise<Outcome> {
  const seconds = bench.sizes.heldMinutes * 60
  const jobs = Math.ceil(PER_SECOND * (seconds + TAIL_SECONDS))
  const { url } = database
  const say = (text: string) => bench.say(`held-snapshot-long: ${contender} ${text}`)
  const run = async (worker: Remote, producer: Remote): Promise<Outcome> => {
    await worker.call('work', { url, style: STYLE, jobs, marks: [1] })
    const limitSeconds = seconds + TAIL_SECONDS
    const load = { style: STYLE, jobs, perSecond: PER_SECOND, batch: BATCH, limitSeconds } as const
    const producing = producer.call('pace', { url, ...load })
    // Should the worker fail first, this is not awaited.
    producing.catch(() => {})
    const began = (await worker.mark(1)).atMs
    const moments = [await takeStock(bench, worker)]
    for (let fifth = 1; fifth <= FIFTHS; fifth++) {
      await setTimeout(Math.max(0, began + (seconds * 1000 * fifth) / FIFTHS - monotonicMs()))
      moments.push(await takeStock(bench, worker))
      say(`${costOf(moments, fifth)?.toFixed(1) ?? '?'} µs a job in fifth ${fifth}`)
    }
    const { firstAtMs, sent } = await producing
    const { handled } = await worker.call('stop', {})
    const left = await countUnfinished(bench, contender, database)
    if (handled + left !== sent) throw new Error(`${contender}: ${sent} jobs sent, ${handled} handled, ${left} left`)
    const last = moments.at(-1)!
    // Jobs that should have come by then count, even if the producer was late with them, too.
    const due = ((last.atMs - firstAtMs) / 1000) * PER_SECOND
    const backlogSeconds = Math.max(0, due - last.handled) / PER_SECOND
    say(`is ${backlogSeconds.toFixed(1)} s of arrivals behind`)
    const [second, fifth] = [costOf(moments, 2), costOf(moments, FIFTHS)]
    return {
      jobs: last.handled,
      costRatio: second === null || fifth === null ? null : fifth / second,
      backlogSeconds,
    }
  }
  return withProcess(bench, contender, (worker) => withProcess(bench, contender, (producer) => run(worker, producer)))
}

async function takeStock(bench: Bench, worker: Remote): Promise<Moment> {
  const server = bench.server.micros()
  const { atMs, handled, nodeMicros } = await worker.call('usage', {})
  return { atMs, handled, micros: server === null ? null : server + nodeMicros }
}

/** In one fifth, per job that was handled in it. */
function costOf(moments: readonly Moment[], fifth: number): number | null {
  const [before, after] = [moments[fifth - 1]!, moments[fifth]!]
  const jobs = after.handled - before.handled
  if (before.micros === null || after.micros === null || jobs === 0) return null
  return (after.micros - before.micros) / jobs
}
