/** The clock that is the same for everybody. */
import { setTimeout } from 'node:timers/promises'
import { type Bench, withProcess } from './bench.ts'
import type { ContenderName } from './contenders/names.ts'
import type { Filled, Usage, WorkOptions } from './process/protocol.ts'
import { monotonicMs } from './process/protocol.ts'
import type { Remote } from './process/remote.ts'
import { serverMicros } from './processors.ts'
import type { Database } from './server.ts'

const POLL_MS = 2

/** What it took to do so many jobs. */
export interface Span {
  readonly jobs: number
  readonly seconds: number
  readonly nodeMicros: number
  /** Of all processes of the server. Null where the system does not tell. */
  readonly databaseMicros: number | null
}

/** Plans, caches and compiled code as in a process that has been running for a while. */
export function warmUpJobs(jobs: number): number {
  return Math.min(Math.ceil(jobs / 10), 10_000)
}

export function fill(bench: Bench, contender: ContenderName, url: string, jobs: number): Promise<Filled> {
  return withProcess(bench, contender, (remote) =>
    remote.call('fill', { url, from: 0, to: jobs, warmUp: warmUpJobs(jobs) }),
  )
}

/** Statistics as autovacuum would have left them, and no page written whole on behalf of an earlier phase. */
export async function settle(bench: Bench, database: Database): Promise<void> {
  await database.main.query('vacuum (analyze)')
  await bench.server.admin.query('checkpoint')
}

/**
 * Drains a queue that holds so many jobs. The clock runs from the first handler after the warm-up to the moment when no
 * job is left without a committed outcome. Throws when a job was handled twice or not at all.
 */
export function drain(
  bench: Bench,
  contender: ContenderName,
  database: Database,
  jobs: number,
  options: Pick<WorkOptions, 'style'> & Partial<WorkOptions>,
): Promise<Span> {
  const warmUp = warmUpJobs(jobs)
  return withProcess(bench, contender, async (worker) => {
    await worker.call('work', { url: database.url, jobs, marks: [warmUp, jobs], ...options })
    const began = await startOf(bench, worker, warmUp)
    await worker.mark(jobs)
    await untilFinished(bench, contender, database)
    const span = await spanSince(bench, worker, began)
    const { handled } = await worker.call('stop', {})
    if (handled !== jobs) throw new Error(`${contender} handled ${handled} of ${jobs} jobs`)
    return span
  })
}

export interface Began {
  readonly usage: Usage
  readonly databaseMicros: number | null
}

export async function startOf(bench: Bench, worker: Remote, mark: number): Promise<Began> {
  return { usage: await worker.mark(mark), databaseMicros: serverMicros(bench.server.postmaster) }
}

export async function spanSince(bench: Bench, worker: Remote, began: Began): Promise<Span> {
  const endedAtMs = monotonicMs()
  const databaseMicros = serverMicros(bench.server.postmaster)
  const usage = await worker.call('usage', {})
  return {
    jobs: usage.handled - began.usage.handled,
    seconds: (endedAtMs - began.usage.atMs) / 1000,
    nodeMicros: usage.nodeMicros - began.usage.nodeMicros,
    databaseMicros:
      databaseMicros === null || began.databaseMicros === null ? null : databaseMicros - began.databaseMicros,
  }
}

export async function countUnfinished(bench: Bench, contender: ContenderName, database: Database): Promise<number> {
  const { rows } = await database.main.query(bench.descriptions[contender].unfinished)
  return rows[0].left
}

async function untilFinished(bench: Bench, contender: ContenderName, database: Database): Promise<void> {
  while ((await countUnfinished(bench, contender, database)) > 0) await setTimeout(POLL_MS)
}

/** Round by round, each starting with another contender: what the machine does meanwhile hits all. */
export async function interleaved<Result>(
  bench: Bench,
  title: string,
  contenders: readonly ContenderName[],
  run: (contender: ContenderName) => Promise<{ result: Result; said: string }>,
): Promise<Map<ContenderName, Result[]>> {
  const results = new Map<ContenderName, Result[]>(contenders.map((contender) => [contender, []]))
  for (let round = 0; round < bench.sizes.rounds; round++) {
    for (let at = 0; at < contenders.length; at++) {
      const contender = contenders[(at + round) % contenders.length]!
      const { result, said } = await run(contender)
      results.get(contender)!.push(result)
      bench.say(`${title}, round ${round + 1}: ${contender} ${said}`)
    }
  }
  return results
}
