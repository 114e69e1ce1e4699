/** The clock, which all processes share. */
import { setTimeout } from 'node:timers/promises'
import { type Bench, withProcess } from './bench.ts'
import type { ContenderName } from './contenders/names.ts'
import { type Filled, monotonicMs, type Usage, type WorkOptions } from './process/protocol.ts'
import type { Remote } from './process/remote.ts'
import type { Database } from './server.ts'

const POLL_MS = 2

/** What it took to do so many jobs. */
export interface Span {
  readonly jobs: number
  readonly seconds: number
  readonly nodeMicros: number
  /** Of all processes of the server. Null where the system has no figure. */
  readonly databaseMicros: number | null
  /** Of the worker process: see process/statements.ts. */
  readonly statements: number
  readonly commits: number
}

export interface DrainOptions extends Partial<WorkOptions> {
  readonly style: WorkOptions['style']
  /** Jobs that are in the queue. */
  readonly jobs: number
  /** How many of them are done, warm-up included. Default: all. */
  readonly until?: number
  /** Unfinished jobs in the same tables which are not the worker's to take. */
  readonly beside?: number
  /** A contender that is not done by then, after the warm-up, is measured on what it did. */
  readonly limitSeconds?: number
  /** Jobs whose completion may be lost when the worker is stopped before the queue is empty. Default: none. */
  readonly losesAtMost?: number
}

/**
 * Plans, caches and compiled code as in a process that has been running for a while. The first 20,000 jobs of a drain take two to three
 * times Node's usual share, in each contender, and the next 20,000 still a quarter more.
 */
export function warmUpJobs(jobs: number): number {
  return Math.min(Math.ceil(jobs / 3), 30_000)
}

/** All their inputs are made before the clock runs. More of them would make the producer's own collections of garbage longer. */
const FILL_MEASURED = 100_000

/** Measures the enqueue of the first, warm-up included. The others come from a process of their own. */
export async function fill(bench: Bench, contender: ContenderName, url: string, jobs: number): Promise<Filled> {
  const measured = Math.min(jobs, FILL_MEASURED)
  const call = (from: number, to: number, warmUp: number) =>
    withProcess(bench, contender, (remote) => remote.call('fill', { url, from, to, warmUp }))
  const filled = await call(0, measured, warmUpJobs(measured))
  if (jobs > measured) await call(measured, jobs, jobs - measured)
  return filled
}

/**
 * Works on a queue, and stops the worker in good order. The clock runs from the first handler after the warm-up: until no
 * job is left without a committed outcome, or until the handler of the last job asked for is called. Throws when a job was
 * handled twice, or when what the worker did and what the database holds do not add up.
 */
export function drain(
  bench: Bench,
  contender: ContenderName,
  database: Database,
  {
    jobs,
    until = jobs,
    beside = 0,
    limitSeconds = Number.POSITIVE_INFINITY,
    losesAtMost = 0,
    ...options
  }: DrainOptions,
): Promise<Span> {
  const warmUp = warmUpJobs(until)
  return withProcess(bench, contender, async (worker) => {
    await worker.call('work', { url: database.url, jobs, marks: [warmUp, until], ...options })
    const began = await startOf(bench, worker, warmUp)
    const isDone = await within(limitSeconds, worker.mark(until))
    if (isDone && until === jobs) await untilFinished(bench, contender, database, beside)
    const span = await spanSince(bench, worker, began)
    const { handled } = await worker.call('stop', {})
    const left = (await countUnfinished(bench, contender, database)) - beside
    const lost = handled + left - jobs
    if (lost < 0 || lost > losesAtMost)
      throw new Error(`${contender}: of ${jobs} jobs ${handled} were handled, ${left} are left`)
    return span
  })
}

export interface Began {
  readonly usage: Usage
  readonly databaseMicros: number | null
}

export async function startOf(bench: Bench, worker: Remote, mark: number): Promise<Began> {
  return { usage: await worker.mark(mark), databaseMicros: bench.server.micros() }
}

export async function spanSince(bench: Bench, worker: Remote, began: Began): Promise<Span> {
  const endedAtMs = monotonicMs()
  const ended = bench.server.micros()
  const usage = await worker.call('usage', {})
  return {
    jobs: usage.handled - began.usage.handled,
    seconds: (endedAtMs - began.usage.atMs) / 1000,
    nodeMicros: usage.nodeMicros - began.usage.nodeMicros,
    statements: usage.statements - began.usage.statements,
    commits: usage.commits - began.usage.commits,
    databaseMicros: ended === null || began.databaseMicros === null ? null : ended - began.databaseMicros,
  }
}

export async function countUnfinished(bench: Bench, contender: ContenderName, database: Database): Promise<number> {
  const { rows } = await database.main.query(bench.descriptions.get(contender)!.unfinished)
  return rows[0].left
}

export async function untilFinished(
  bench: Bench,
  contender: ContenderName,
  database: Database,
  beside = 0,
  limitSeconds = Number.POSITIVE_INFINITY,
): Promise<void> {
  const deadline = performance.now() + limitSeconds * 1000
  while ((await countUnfinished(bench, contender, database)) > beside && performance.now() < deadline)
    await setTimeout(POLL_MS)
}

/** Node and database together, per job. */
export function costMicros({ jobs, nodeMicros, databaseMicros }: Span): number | null {
  return databaseMicros === null ? null : (nodeMicros + databaseMicros) / jobs
}

/** Whether it happened in time. */
export async function within(seconds: number, event: Promise<unknown>): Promise<boolean> {
  if (seconds === Number.POSITIVE_INFINITY) return event.then(() => true)
  const over = new AbortController()
  const late = setTimeout(seconds * 1000, false, { signal: over.signal }).catch(() => false)
  const inTime = await Promise.race([event.then(() => true), late])
  over.abort()
  return inTime
}
