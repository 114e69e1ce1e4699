// A Leasehold and its workers on a database of their own. Their log and events are kept, and none outlives its test.
import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import pg from 'pg'
import type { ConnectionOptions } from '../../src/db/connection.ts'
import { Session } from '../../src/db/session.ts'
import {
  type Handler,
  handle,
  type Job,
  type JobId,
  type KindOptions,
  kind,
  Leasehold,
  type LogEntry,
  type Worker,
  type WorkerEvents,
  type WorkerOptions,
} from '../../src/index.ts'
import { countingDatabase, type TestDatabase } from './database.ts'
import { findJobRow } from './queue.ts'
import { until } from './until.ts'

/** Longer than anything takes here: it only ends a test that waits for an event that never comes. */
const HANGS_AFTER_MS = 90_000

/** Undone in reverse, in any order of Node's hooks: workers stop before their database is dropped. */
export type Undo = Pick<TestContext, 'after'>

export function lastFirst(t: TestContext): Undo {
  const steps: (() => unknown)[] = []
  t.after(async () => {
    const failures: unknown[] = []
    for (const step of steps.reverse()) {
      try {
        await step()
      } catch (error) {
        failures.push(error)
      }
    }
    if (failures.length > 0) throw failures[0]
  })
  return { after: (step) => void steps.push(step as () => unknown) } as Undo
}

export interface Scene {
  readonly db: TestDatabase
  readonly lh: Leasehold
  /** The log of all of them. */
  readonly log: LogEntry[]
  /** Registers cleanup that must run before the database is dropped. */
  readonly undo: Undo
  /** Another Leasehold on the same database. */
  leasehold(options?: ConnectionOptions): Leasehold
  /** A worker that runs from now on, and is stopped with the test. */
  worker(handlers: readonly Handler[], options?: WorkerOptions, lh?: Leasehold): Worker
}

/** A database, a Leasehold on it, and workers on demand. */
export async function scene(t: TestContext, options: ConnectionOptions = {}): Promise<Scene> {
  const undo = lastFirst(t)
  const db = await countingDatabase(undo as TestContext)
  const log: LogEntry[] = []
  const leasehold = (own: ConnectionOptions = {}) => {
    const made = new Leasehold({ connectionString: db.url, log: (entry) => log.push(entry), ...own })
    undo.after(() => made.close())
    return made
  }
  const lh = leasehold(options)
  const worker = (handlers: readonly Handler[], own: WorkerOptions = {}, of: Leasehold = lh) =>
    run(undo, of.worker(handlers, { signals: [], ...own }))
  return { db, lh, log, undo, leasehold, worker }
}

export interface Setting extends Scene {
  readonly busy: Worker
  /** One more job for it. */
  add(): Promise<JobId>
}

/** A worker whose one handler does this. */
export async function doing(
  t: TestContext,
  work: (job: Job<number>, scene: Scene) => unknown,
  options: {
    kind?: Omit<KindOptions, 'input'>
    worker?: WorkerOptions
    connection?: ConnectionOptions
  } = {},
): Promise<Setting> {
  const setting = await scene(t, options.connection)
  const task = kind<number>('task', options.kind ?? {})
  const busy = setting.worker([handle(task, (job) => work(job, setting))], { poll: 20, ...options.worker })
  let enqueued = 0
  return { ...setting, busy, add: async () => (await setting.lh.enqueue(task, enqueued++)).jobId }
}

/** Runs the worker until the test ends. A run that fails makes the test fail. */
export function run(undo: Undo, worker: Worker): Worker {
  const running = worker.run()
  running.catch(() => {}) // Reported below.
  undo.after(async () => {
    await worker.stop({ grace: 0 })
    await running
  })
  return worker
}

/** The next event of this name that matches. Call it before you cause the event. */
export function next<Name extends keyof WorkerEvents>(
  worker: Worker,
  name: Name,
  fits: (event: NonNullable<WorkerEvents[Name][0]>) => boolean = () => true,
): Promise<NonNullable<WorkerEvents[Name][0]>> {
  const answer = new Promise<NonNullable<WorkerEvents[Name][0]>>((resolve) => {
    const listener = (...[event]: WorkerEvents[Name]) => {
      if (event !== undefined && !fits(event)) return
      worker.off(name, listener)
      resolve(event as NonNullable<WorkerEvents[Name][0]>)
    }
    worker.on(name, listener)
  })
  return inTime(answer, `no event "${name}"`)
}

/** Every event of this name from now on. */
export function collect<Name extends keyof WorkerEvents>(worker: Worker, name: Name): WorkerEvents[Name][0][] {
  const events: WorkerEvents[Name][0][] = []
  worker.on(name, (...[event]: WorkerEvents[Name]) => void events.push(event))
  return events
}

/** The promise, or a failure that names what was missing. If it is not awaited, it fails silently. */
export function inTime<T>(promise: Promise<T>, missing: string): Promise<T> {
  const answer = new Promise<T>((resolve, reject) => {
    const late = AbortSignal.timeout(HANGS_AFTER_MS)
    late.addEventListener('abort', () => reject(new Error(`${missing} within ${HANGS_AFTER_MS} ms`)))
    promise.then(resolve, reject)
  })
  answer.catch(() => {})
  return answer
}

export async function untilStatus(db: Pick<TestDatabase, 'pool'>, jobId: JobId, status: string): Promise<void> {
  await until(`job ${jobId} is ${status}`, async () => (await findJobRow(db, jobId))?.status === status)
}

/** How many rows the query counts. */
export async function count(db: Pick<TestDatabase, 'pool'>, query: string, values: unknown[] = []): Promise<number> {
  const { rows } = await db.pool.query(`select count(*)::int as count ${query}`, values)
  return rows[0].count
}

/** No lease is left behind: neither a job that is processing, nor a row in the ledger. */
export async function nothingHeld(db: Pick<TestDatabase, 'pool'>): Promise<void> {
  assert.equal(await count(db, 'from leasehold.job where claim_id is not null'), 0, 'jobs are still processing')
  assert.equal(await count(db, 'from leasehold.claim'), 0, 'claims are still in the ledger')
}

/** Alone, or along with completions. */
export const isClaim = (name: string) => name === 'job.claim' || name === 'job.turn'
export const isCompletion = (name: string) => name === 'job.complete' || name === 'job.turn'

/** The names of all statements that this process sends from now on, in order, until the test ends. */
export function statements(t: Undo): string[] {
  const names: string[] = []
  const { prototype } = pg.Client
  const { query } = prototype
  prototype.query = function (this: pg.Client, ...args: unknown[]) {
    const [config] = args as [{ text?: string } | string]
    const text = typeof config === 'string' ? config : (config?.text ?? '')
    const name = /^-- (\S+)/.exec(text)?.[1]
    if (name !== undefined) names.push(name)
    return (query as (...args: unknown[]) => unknown).apply(this, args)
  } as typeof query
  t.after(() => {
    prototype.query = query
  })
  return names
}

/** How many statements of workers are in flight in this process, from now on until the test ends. */
export function unanswered(t: Undo): () => number {
  let open = 0
  const { prototype } = Session
  const { query } = prototype
  prototype.query = function (this: Session, config) {
    open++
    return query.call(this, config).finally(() => {
      open--
    })
  }
  t.after(() => {
    prototype.query = query
  })
  return () => open
}

/** The code of the error that the call throws; fails when it throws nothing, or a foreign error. */
export async function codeOf(call: () => unknown): Promise<string> {
  try {
    await call()
  } catch (error) {
    return String((error as { code?: unknown }).code ?? error)
  }
  return 'nothing was thrown'
}

/** Channel and message of every notification that this process has handled from now on, until the test ends. */
export function notifications(t: Undo): string[] {
  const heard: string[] = []
  const { prototype } = pg.Client
  const { emit } = prototype
  prototype.emit = function (this: pg.Client, name: string, ...args: unknown[]) {
    const answer = (emit as (...args: unknown[]) => boolean).call(this, name, ...args)
    const { channel, payload } = (args[0] ?? {}) as { channel?: string; payload?: string }
    if (name === 'notification') heard.push(`${channel} ${payload}`)
    return answer
  } as typeof emit
  t.after(() => {
    prototype.emit = emit
  })
  return heard
}
