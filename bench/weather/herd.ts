/** Many idle workers and one job at a time: how many claims it takes, and how much later it starts than with one worker. */
import { setTimeout } from 'node:timers/promises'
import { Lane } from '../../src/db/lane.ts'
import { handle, kind, Leasehold } from '../../src/index.ts'
import { CLAIM } from '../../src/jobs/claim.sql.ts'
import type { BenchServer } from '../server.ts'
import { atMost, type Bar } from './bar.ts'

const WORKERS = 32
const JOBS = 150
/** By then each knows how many there are. */
const SETTLE_MS = 4_000
const PAUSE_MS = 10
const CLAIMS_A_JOB = 3
const MS_LATER = 10

const task = kind<number>('task', { keep: false })

interface Trickle {
  readonly claimsAJob: number
  readonly medianMs: number
}

export async function herd(server: BenchServer): Promise<Bar[]> {
  const alone = await trickle(server, 1)
  const crowd = await trickle(server, WORKERS)
  return [
    atMost(`claims a job, ${WORKERS} idle workers`, crowd.claimsAJob, 'claims', CLAIMS_A_JOB),
    atMost(
      `a job starts later than with one, ${WORKERS} idle workers`,
      crowd.medianMs - alone.medianMs,
      'ms',
      MS_LATER,
    ),
  ]
}

/** Polls included: each worker polls once a second all the same. */
async function trickle(server: BenchServer, many: number): Promise<Trickle> {
  const database = await server.clone('weather-herd', async (_, url) => {
    const first = new Leasehold({ connectionString: url })
    await first.migrate()
    await first.close()
  })
  const leasehold = new Leasehold({ connectionString: database.url, log: () => {} })
  const startedAt: number[] = []
  const handler = handle(task, ({ input }) => {
    startedAt[input] = performance.now()
  })
  const workers = Array.from({ length: many }, () => leasehold.worker([handler], { signals: [] }))
  const running = workers.map((worker) => worker.run())
  await setTimeout(SETTLE_MS)
  const claims = countClaims()
  const delays: number[] = []
  for (let n = 0; n < JOBS; n++) {
    const enqueuedAt = performance.now()
    await leasehold.enqueue(task, n)
    while (startedAt[n] === undefined) await setTimeout(1)
    delays.push(startedAt[n]! - enqueuedAt)
    await setTimeout(PAUSE_MS)
  }
  const sent = claims.end()
  await Promise.all(workers.map((worker) => worker.stop()))
  await Promise.all(running)
  await leasehold.close()
  await database.drop()
  delays.sort((one, other) => one - other)
  return { claimsAJob: sent / JOBS, medianMs: delays[JOBS / 2]! }
}

/** Of this process, from now on. */
function countClaims(): { end(): number } {
  const { run } = Lane.prototype
  let count = 0
  Lane.prototype.run = function (this: Lane, statement: string, values: readonly unknown[]) {
    if (statement === CLAIM) count++
    return run.call(this, statement, values)
  } as typeof run
  return {
    end: () => {
      Lane.prototype.run = run
      return count
    },
  }
}
