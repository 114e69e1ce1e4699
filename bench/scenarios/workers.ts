/** Several worker processes empty one queue. More of them should get in each other's way as little as possible. */
import { among, type Bench } from '../bench.ts'
import type { Style } from '../contenders/contender.ts'
import type { ContenderName } from '../contenders/names.ts'
import { filledDatabase } from '../filled.ts'
import { countUnfinished, type Span, untilFinished } from '../measure.ts'
import { monotonicMs } from '../process/protocol.ts'
import type { Remote } from '../process/remote.ts'
import { interleaved } from '../rounds.ts'
import type { Database } from '../server.ts'
import { addSpans, saidPerSecond } from '../spans.ts'

const COUNTS = [1, 2, 4, 8]
/** What bars.ts asks about. */
const BARRED = { scenario: 'workers', processes: 8 }
const CONTENDERS: readonly ContenderName[] = ['leasehold', 'leasehold-not-kept', 'graphile-worker']

export interface Load {
  readonly scenario: string
  readonly style: Style
  readonly handlerMs: number
  readonly jobs: number
  /** How often a process reports its progress. */
  readonly markEvery: number
}

export async function workersScenario(bench: Bench): Promise<void> {
  const { workersJobs, workersSlowJobs } = bench.sizes
  const loads: readonly Load[] = [
    { scenario: 'workers', style: 'backlog', handlerMs: 0, jobs: workersJobs, markEvery: 250 },
    { scenario: 'workers-5-ms', style: 'handlers-50', handlerMs: 5, jobs: workersSlowJobs, markEvery: 50 },
  ]
  const contenders = among(bench, CONTENDERS)
  for (const load of loads) {
    for (const processes of COUNTS) await share(bench, contenders, load, processes)
    for (const contender of contenders) await bench.server.forget(`${contender}-${load.jobs}`)
  }
}

async function share(bench: Bench, contenders: ContenderName[], load: Load, processes: number): Promise<void> {
  const { scenario, jobs } = load
  const run = async (contender: ContenderName) => {
    const database = await filledDatabase(bench, `${contender}-${jobs}`, contender, jobs)
    const remotes = Array.from({ length: processes }, () => bench.start(contender))
    try {
      const result = await drainTogether(bench, contender, database, remotes, load)
      return { result, said: saidPerSecond(result) }
    } finally {
      await Promise.all(remotes.map((remote) => remote.end()))
      await database.drop()
    }
  }
  const { rounds, fewerRounds } = bench.sizes
  const count = scenario === BARRED.scenario && processes === BARRED.processes ? rounds : fewerRounds
  const runs = await interleaved(bench, `${scenario} × ${processes}`, contenders, run, () => count)
  for (const [contender, spans] of runs) addSpans(bench, scenario, `${contender} × ${processes}`, spans)
}

/** The clock runs from a third of the jobs, when all processes are warm, until none is left without an outcome. */
export async function drainTogether(
  bench: Bench,
  contender: ContenderName,
  database: Database,
  remotes: readonly Remote[],
  { style, handlerMs, jobs, markEvery }: Load,
): Promise<Span> {
  // Their modules are loaded before the first of them starts.
  await Promise.all(remotes.map((remote) => remote.call('describe', {})))
  const marks = Array.from({ length: Math.floor(jobs / markEvery) }, (_, at) => (at + 1) * markEvery)
  const progress = new Progress(remotes)
  const isWarm = progress.reaches(jobs / 3)
  const isNearlyDone = progress.reaches(jobs - remotes.length * markEvery)
  const options = { url: database.url, style, handlerMs, jobs, marks }
  await Promise.all(remotes.map((remote) => remote.call('work', options)))
  await isWarm
  const began = await takeStock(bench, remotes)
  await isNearlyDone
  await untilFinished(bench, contender, database)
  const ended = await takeStock(bench, remotes)
  await Promise.all(remotes.map((remote) => remote.call('stop', {})))
  await checkAll(bench, contender, database, remotes, jobs)
  return {
    jobs: ended.handled - began.handled,
    seconds: (ended.atMs - began.atMs) / 1000,
    nodeMicros: ended.nodeMicros - began.nodeMicros,
    databaseMicros:
      ended.databaseMicros === null || began.databaseMicros === null
        ? null
        : ended.databaseMicros - began.databaseMicros,
    statements: ended.statements - began.statements,
    commits: ended.commits - began.commits,
  }
}

/** Of all processes together. */
async function takeStock(bench: Bench, remotes: readonly Remote[]) {
  const atMs = monotonicMs()
  const databaseMicros = bench.server.micros()
  const usages = await Promise.all(remotes.map((remote) => remote.call('usage', {})))
  const sum = (of: (usage: (typeof usages)[number]) => number) => usages.reduce((total, usage) => total + of(usage), 0)
  return {
    atMs,
    databaseMicros,
    handled: sum(({ handled }) => handled),
    nodeMicros: sum(({ nodeMicros }) => nodeMicros),
    statements: sum(({ statements }) => statements),
    commits: sum(({ commits }) => commits),
  }
}

/** A process detects a duplicate job; this detects a job handled by two processes, or by none. */
async function checkAll(
  bench: Bench,
  contender: ContenderName,
  database: Database,
  remotes: readonly Remote[],
  jobs: number,
): Promise<void> {
  const times = new Uint8Array(jobs)
  for (const remote of remotes) {
    const seen = Buffer.from((await remote.call('seen', {})).jobs, 'base64')
    for (let at = 0; at < jobs; at++) times[at]! += seen[at]!
  }
  const wrong = times.findIndex((count) => count !== 1)
  if (wrong !== -1) throw new Error(`${contender}: job ${wrong} was handled ${times[wrong]} times`)
  const left = await countUnfinished(bench, contender, database)
  if (left !== 0) throw new Error(`${contender}: ${left} jobs are left though all were handled`)
}

/** How many jobs all processes have handled, by their marks. */
class Progress {
  readonly #handled: number[]
  readonly #failure: Promise<never>
  readonly #waiting: { readonly count: number; readonly resolve: () => void }[] = []

  constructor(remotes: readonly Remote[]) {
    this.#handled = remotes.map(() => 0)
    for (const [at, remote] of remotes.entries()) {
      remote.onMark(({ handled }) => {
        this.#handled[at] = handled
        this.#moved()
      })
    }
    // A mark that is never reached: it ends only when the process fails.
    const never = remotes.map((remote) => remote.mark(Number.POSITIVE_INFINITY))
    this.#failure = Promise.race(never) as Promise<never>
    this.#failure.catch(() => {})
  }

  reaches(count: number): Promise<void> {
    const reached = new Promise<void>((resolve) => this.#waiting.push({ count, resolve }))
    const orFailed = Promise.race([reached, this.#failure])
    orFailed.catch(() => {})
    return orFailed
  }

  #moved(): void {
    const total = this.#handled.reduce((sum, handled) => sum + handled, 0)
    for (const { count, resolve } of this.#waiting) if (total >= count) resolve()
  }
}
