/**
 * What metrics cost, in processor time. A job costs tens of microseconds, worker and database, and to count it less than one, so the
 * difference of two runs is noise: it was anything from -18 to +60 % on a machine with other work. So both are measured apart: a job without
 * metrics, in a drain and one at a time, and an outcome that is announced with the Prometheus counters less one that is announced without, in turns.
 * The counters are read by a scrape, whose cost is printed apart.
 *
 *   npm run bench:telemetry -- [--quick] [--json]
 */
import { handle, kind, Leasehold, type Worker } from '../src/index.ts'
import type { ClaimedJob, JobId } from '../src/jobs/job.ts'
import type { StoredTime } from '../src/jobs/stored-time.ts'
import { ProcessMetrics } from '../src/telemetry/process-metrics.ts'
import { metricsHandler } from '../src/telemetry/prometheus.ts'
import { Events } from '../src/worker/events.ts'
import { HeldJob } from '../src/worker/job.ts'
import { announceOutcome, newTally } from '../src/worker/outcome-events.ts'
import type { PendingOutcome } from '../src/worker/pending-outcome.ts'
import { startPostgres } from '../tools/postgres.ts'
import { readOptions } from './arguments.ts'
import { serverMicros } from './processors.ts'
import { median } from './statistics.ts'

const MOST = 1.02
const flag = { type: 'boolean', default: false } as const
const { quick, json } = readOptions({ quick: flag, json: flag })
const sizes = quick
  ? { rounds: 3, drain: 2_000, trickle: 200, outcomes: 20_000 }
  : { rounds: 11, drain: 20_000, trickle: 300, outcomes: 200_000 }
const server = await startPostgres({ settings: { fsync: 'off' } })
const connectionString = server.url
const task = kind<number>('task', { keep: false })
const doNothing = handle(task, () => {})

const scenarios = {
  async drain(leasehold: Leasehold): Promise<number> {
    const inputs = Array.from({ length: sizes.drain }, (_, input) => ({ input }))
    for (let at = 0; at < inputs.length; at += 10_000) await leasehold.enqueueMany(task, inputs.slice(at, at + 10_000))
    const spent = allMicros()
    await leasehold.drain([doNothing], { concurrency: 100, signals: [] })
    return spent() / sizes.drain
  },
  async trickle(leasehold: Leasehold): Promise<number> {
    const worker = leasehold.worker([doNothing], { signals: [] })
    const running = worker.run()
    await next(worker, 'wakeup')
    const spent = allMicros()
    for (let input = 0; input < sizes.trickle; input++) {
      const completed = next(worker, 'completed')
      await leasehold.enqueue(task, input)
      await completed
    }
    const micros = spent() / sizes.trickle
    await worker.stop()
    await running
    return micros
  },
}

function next(worker: Worker, event: 'wakeup' | 'completed'): Promise<void> {
  return new Promise((resolve) => {
    const listener = () => {
      worker.off(event, listener)
      resolve()
    }
    worker.on(event, listener)
  })
}

/** Of this process. */
function processorMicros(): () => number {
  const before = process.cpuUsage()
  return () => {
    const { user, system } = process.cpuUsage(before)
    return user + system
  }
}

/** Of this process and of the server. */
function allMicros(): () => number {
  const spent = processorMicros()
  const ofServer = () => serverMicros(server.pids.postmaster) ?? 0
  const before = ofServer()
  return () => spent() + ofServer() - before
}

async function costOfAJob(scenario: keyof typeof scenarios): Promise<number> {
  const leasehold = new Leasehold({ connectionString, log: () => {} })
  try {
    await scenarios[scenario](leasehold) // Warms up.
    const micros: number[] = []
    for (let round = 0; round < sizes.rounds; round++) micros.push(await scenarios[scenario](leasehold))
    return median(micros)
  } finally {
    await leasehold.close()
  }
}

/** A completed job, of which the worker announces the outcome. */
function completedJob(): PendingOutcome {
  const at = '0002fd5d6e3b8c00' as StoredTime
  const claimed = {
    jobId: '1' as JobId,
    kind: 'task',
    queue: 'task',
    partitionKey: null,
    availableAt: at,
    claimedAt: at,
    generation: 1,
    attempt: 1,
  } as ClaimedJob
  const job = new HeldJob(claimed, doNothing as never, {} as never)
  job.startedAt = 0
  job.endedAt = 1
  return {
    job,
    outcome: { verb: 'complete' },
    uncertain: false,
    replaced: false,
    bytes: 0,
    known: 'completed',
  } as PendingOutcome
}

function costOfCounting(): number {
  const [plain, counted] = [new Events(() => {}, 'plain'), new Events(() => {}, 'counted')]
  new ProcessMetrics().watch(Object.assign(counted, { kinds: [{ name: 'task', queue: 'task' }] }) as never)
  const report = completedJob()
  const announce = (events: Events) => {
    const tally = newTally()
    const spent = processorMicros()
    for (let n = 0; n < sizes.outcomes; n++) announceOutcome(events, tally, report, 'completed')
    return spent() / sizes.outcomes
  }
  const differences: number[] = []
  for (let round = 0; round < 2 * sizes.rounds; round++) differences.push(announce(counted) - announce(plain))
  return median(differences.slice(2)) // Without those in which Node compiled.
}

async function scrapeMicros(): Promise<number> {
  const leasehold = new Leasehold({ connectionString, log: () => {} })
  const metrics = metricsHandler(leasehold)
  await metrics()
  const spent = processorMicros()
  const scrapes = 20
  for (let n = 0; n < scrapes; n++) await (await metrics()).text()
  await leasehold.close()
  return spent() / scrapes
}

try {
  const setup = new Leasehold({ connectionString, log: () => {} })
  await setup.migrate()
  await setup.close()
  const counting = costOfCounting()
  const jobs = { drain: await costOfAJob('drain'), trickle: await costOfAJob('trickle') }
  const scrape = await scrapeMicros()
  const bars = Object.entries(jobs).map(([name, micros]) => {
    const value = 1 + counting / micros
    return { name, jobMicros: micros, value, most: MOST, holds: value <= MOST }
  })
  console.log(`to count an outcome  ${counting.toFixed(2)} µs`)
  for (const { name, jobMicros, value, holds } of bars) {
    const verdict = `${value.toFixed(4)}; at most ${MOST}: ${holds ? 'holds' : 'MISSED'}`
    console.log(`${name.padEnd(8)}  ${jobMicros.toFixed(1)} µs a job without metrics; with them ${verdict}`)
  }
  console.log(`a scrape  ${scrape.toFixed(0)} µs, while the answer of the database is kept`)
  if (json) console.log(JSON.stringify({ sizes, countingMicros: counting, scrapeMicros: scrape, bars }))
} finally {
  await server.stop()
}
