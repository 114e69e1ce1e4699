// A runner without a fetcher, on a database of its own. It holds exactly the runs that the test has claimed for it.
import type { TestContext } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { monotonicMs } from '../../src/core/timer.ts'
import { Connection } from '../../src/db/connection.ts'
import { Lane } from '../../src/db/lane.ts'
import { type BatchJob, handleBatch, type JobId, kind, queue } from '../../src/index.ts'
import { Events } from '../../src/worker/events.ts'
import { inRuns } from '../../src/worker/handler.ts'
import { Runner } from '../../src/worker/runner.ts'
import { Slots } from '../../src/worker/slots.ts'
import { Turns } from '../../src/worker/turns.ts'
import { gate } from './gate.ts'
import { claimRuns } from './order.ts'
import { newWorker } from './queue.ts'
import { until } from './until.ts'
import { type Scene, scene } from './worker.ts'

export const step = kind<string>('step', {
  queue: 'steps',
  ordered: true,
  backoff: { first: 1, max: 1 },
  timeout: '10s',
})
export const LEASE_MS = 600_000

export type Call = readonly BatchJob<string>[]
export const inputsOf = (jobs: Call) => jobs.map(({ input }) => input)

export interface HeldRuns extends Scene {
  readonly lane: Lane
  readonly runner: Runner
  readonly slots: Slots
  /** The inputs of each call. */
  readonly calls: string[][]
  /** Inputs of jobs, in the order in which this was announced of them. */
  readonly seen: Record<'completed' | 'aborted' | 'released' | 'refused', string[]>
  enqueue(...inputs: readonly string[]): Promise<void>
  /** Claims all that can be claimed, and holds it. */
  claim(): Promise<void>
  idOf(input: string): JobId
  /** Each job that the database has, as `input status attempts`, in the order of the inputs. */
  stored(): Promise<string[]>
  /** The runner has ended what it held, and the database knows. */
  untilEmpty(): Promise<void>
}

/** Jobs are strings, and their first letter is their key. These are enqueued and claimed before it returns. */
export async function heldRuns(
  t: TestContext,
  inputs: readonly string[],
  run: (jobs: Call, signal: AbortSignal) => void | Promise<void>,
  // `of`: the same kind, as its handler declares it.
  { size = 50, concurrency = 1, of = step }: { size?: number; concurrency?: number; of?: typeof step } = {},
): Promise<HeldRuns> {
  const setting = await scene(t)
  const { db, lh, log, undo } = setting
  await lh.configure([step, queue('steps', { ordered: true, onDeadLetter: 'skip' })])
  const calls: string[][] = []
  const recorded = (jobs: Call, signal: AbortSignal) => {
    calls.push(inputsOf(jobs))
    return run(jobs, signal)
  }
  const handlers = new Map([[of.name, inRuns(handleBatch(of, recorded, { size }))]])
  const [lane, worker, events] = [new Lane(db.pool), newWorker(), new Events((entry) => log.push(entry), 'test:1')]
  const connection = new Connection({ pool: db.pool })
  const slots = new Slots(handlers, concurrency, 0)
  const runner = new Runner({
    worker,
    handlers,
    slots,
    events,
    leaseMs: LEASE_MS,
    outcomeLane: lane,
    leaseLane: lane,
    turns: new Turns(lane, lane),
    connection,
  })
  const byId = new Map<JobId, string>()
  const seen: HeldRuns['seen'] = { completed: [], aborted: [], released: [], refused: [] }
  for (const name of ['completed', 'aborted', 'released', 'refused'] as const)
    events.on(name, ({ jobId }: { jobId: JobId }) => void seen[name].push(byId.get(jobId)!))
  runner.start()
  undo.after(async () => {
    runner.close()
    runner.releaseAll()
    await runner.stop(new AbortController().signal)
  })
  const enqueue = async (...more: readonly string[]) => {
    const jobs = await lh.enqueueMany(
      step,
      more.map((input) => ({ input, partitionKey: input[0]! })),
    )
    for (const [nth, { jobId }] of jobs.entries()) byId.set(jobId, more[nth]!)
  }
  const claim = async () => {
    const sentAt = monotonicMs()
    const jobs = await claimRuns(lane, { worker, queues: ['steps'], kinds: [of.name], leaseMs: LEASE_MS })
    if (jobs.length > 0) runner.claimed(jobs[0]!.claimId, sentAt, jobs)
  }
  await enqueue(...inputs)
  await claim()
  return {
    ...setting,
    lane,
    runner,
    slots,
    calls,
    seen,
    enqueue,
    claim,
    idOf: (input) => [...byId].find(([, each]) => each === input)![0],
    stored: async () => {
      const text = `select payload #>> '{}' as input, status, attempts from leasehold.jobs order by 1`
      return (await db.pool.query(text)).rows.map(({ input, status, attempts }) => `${input} ${status} ${attempts}`)
    },
    untilEmpty: async () => void (await until('nothing is held', () => slots.held === 0)),
  }
}

/** More turns of the event loop than a worker needs to begin a call. */
export async function manyTurns(): Promise<void> {
  for (let n = 0; n < 20; n++) await setImmediate()
}

/** A handler whose first call waits for the test, and whose later calls return. */
export function heldCall() {
  const [began, goOn] = [gate(), gate()]
  let first: { readonly jobs: Call; readonly signal: AbortSignal } | undefined
  const run = async (jobs: Call, signal: AbortSignal) => {
    if (first !== undefined) return
    first = { jobs, signal }
    began.open()
    await goOn.opened
  }
  return { run, goOn, began: began.opened, jobs: () => first!.jobs, signal: () => first!.signal }
}
