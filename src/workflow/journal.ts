/** What is on record of runs: loading it, and adding to it under the run's fence. */
import { backoffMs } from '../core/backoff.ts'
import { IdempotencyConflictError } from '../core/errors.ts'
import { monotonicMs, sleep } from '../core/timer.ts'
import type { Connection } from '../db/connection.ts'
import type { Lane, Row } from '../db/lane.ts'
import { isOutage } from '../db/outage.ts'
import { numericArray } from '../db/parameters.ts'
import type { JobId, Lease, Worker } from '../jobs/job.ts'
import { fence, fences } from '../jobs/outcome.ts'
import { Gathered } from './gathered.ts'
import { LOAD, RECEIVE, RECORD, START_CHILD } from './step.sql.ts'

export type EntryType = 'step' | 'sleep' | 'signal' | 'job' | 'any' | 'patch' | 'compensation'
export type EntryState = 'recorded' | 'failed' | 'retrying' | 'waiting'

/** A step, a wait or a decision of a run, as it is on record. */
export interface Entry {
  readonly place: number
  readonly type: EntryType
  readonly name: string
  /** Counts those of one type and name, from 1. */
  readonly nth: number
  readonly state: EntryState
  readonly attempt: number
  /** Of a sleep, or of a step that is retried, on the monotonic clock of this process. */
  readonly wakeAt: number | undefined
  /** The job that was started. */
  readonly childId: JobId | undefined
  /** JSON texts. */
  readonly result: string | null
  readonly error: string | null
}

export interface Signal {
  readonly id: string
  readonly name: string
  /** JSON text. */
  readonly payload: string | null
}

export interface Loaded {
  readonly runId: string
  /** On the monotonic clock of this process, which may have begun later. */
  readonly startedAt: number
  /** An operator has paused it. */
  readonly isPaused: boolean
  /** Why, if its cancellation was requested. */
  readonly cancelled: { readonly reason: string | null } | undefined
  readonly entries: readonly Entry[]
  /** Those that were not consumed. Undefined: there are many, ask for those that are waited for. */
  readonly signals: readonly Signal[] | undefined
}

/** Signals of these names, for a run. */
interface Awaited {
  readonly lease: Lease
  readonly names: readonly string[]
}

export interface NewEntry {
  readonly lease: Lease
  readonly place: number
  /** The last place that is known to be on record; 0: none. */
  readonly after: number
  readonly type: EntryType
  readonly name: string
  readonly nth: number
  readonly state: EntryState
  readonly attempt: number
  readonly result: string | null
  readonly error: string | null
  readonly wakeMs: number | null
  readonly signalId: string | null
  /** When it began, on the monotonic clock. */
  readonly startedAt: number
}

/** A statement takes milliseconds, and others wait for it. */
const AT_ONCE = { items: 250 }
/** The largest result is as large (steps.ts). Length in UTF-16 units is near enough, and costs nothing. */
const RECORDS_AT_ONCE = {
  ...AT_ONCE,
  bytes: 4 * 1024 * 1024,
  sizeOf: ({ result, error }: NewEntry) => (result?.length ?? 0) + (error?.length ?? 0),
}
/** The limit in LOAD. */
const MANY_SIGNALS = 1_000
const BUSY_AGAIN = { firstMs: 10, maxMs: 1_000 }
const BACKOFF = { firstMs: 50, maxMs: 2_000 }

/** One for a connection, so that all runs of a process share its statements. */
export class Journal {
  readonly #lane: Lane
  readonly #worker: Worker
  readonly #loading: Gathered<Lease, Loaded | undefined>
  readonly #receiving: Gathered<Awaited, Signal[]>
  readonly #recording: Gathered<NewEntry, string>

  constructor(lane: Lane, worker: Worker) {
    this.#lane = lane
    this.#worker = worker
    this.#loading = new Gathered(AT_ONCE, (leases) => load(lane, leases))
    this.#receiving = new Gathered(AT_ONCE, (asked) => receive(lane, asked))
    this.#recording = new Gathered(RECORDS_AT_ONCE, (entries) => record(lane, worker, entries))
  }

  /** Undefined: the lease is gone. */
  load(lease: Lease, isOurs: () => boolean): Promise<Loaded | undefined> {
    return whileOurs(isOurs, () => this.#loading.ask(lease))
  }

  /** The first signals of each of these names. None, if the lease is gone. */
  async receive(lease: Lease, names: readonly string[], isOurs: () => boolean): Promise<readonly Signal[]> {
    return (await whileOurs(isOurs, () => this.#receiving.ask({ lease, names }))) ?? []
  }

  /** False: the lease is gone. */
  async add(entry: NewEntry, isOurs: () => boolean): Promise<boolean> {
    return (await whileOurs(isOurs, () => this.#recording.ask(entry))) === 'recorded'
  }

  /** In the caller's transaction. False: the lease is gone. */
  async addWithin(tx: Lane, entry: NewEntry): Promise<boolean> {
    return (await record(tx, this.#worker, [entry]))[0] === 'recorded'
  }

  /** Enqueues a job and records that the run has started it. Undefined: the lease is gone. Throws IdempotencyConflictError. */
  async startChild(
    { lease, place, after, name, nth }: Pick<NewEntry, 'lease' | 'place' | 'after' | 'name' | 'nth'>,
    kind: string,
    payload: string,
    options: Readonly<Record<string, unknown>>,
    isOurs: () => boolean,
  ): Promise<JobId | undefined> {
    const values = [...fence(lease), place, after, name, nth, kind, payload, JSON.stringify(options), this.#worker.id]
    const child = await whileOurs(isOurs, async () => {
      const [row] = await this.#lane.run<'child'>(START_CHILD, values)
      const { child } = row!
      if (child?.startsWith('-')) throw conflict(child.slice(1), options)
      return child === '0' ? 'busy' : child
    })
    return (child as JobId | null | undefined) ?? undefined
  }
}

function conflict(
  jobId: string,
  { idempotency_key: key }: Readonly<Record<string, unknown>>,
): IdempotencyConflictError {
  return new IdempotencyConflictError([{ index: 0, idempotencyKey: String(key), jobId }])
}

/** While the database is away it asks again, for as long as the lease is ours. Undefined: it is not. */
async function whileOurs<T>(isOurs: () => boolean, ask: () => Promise<T>): Promise<T | undefined> {
  for (let [failures, refusals] = [1, 1]; isOurs(); ) {
    try {
      const answer = await ask()
      if (answer !== 'busy') return answer
      await sleep(backoffMs(refusals++, BUSY_AGAIN))
    } catch (error) {
      if (!isOutage(error)) throw error
      await sleep(backoffMs(failures++, BACKOFF))
    }
  }
  return undefined
}

const JOURNALS = new WeakMap<Connection, Map<string, Journal>>()

export function journalOf(connection: Connection, worker: Worker): Journal {
  const ofWorkers = JOURNALS.get(connection) ?? new Map<string, Journal>()
  JOURNALS.set(connection, ofWorkers)
  const journal = ofWorkers.get(worker.id) ?? new Journal(connection.lane, worker)
  ofWorkers.set(worker.id, journal)
  return journal
}

async function record(lane: Lane, worker: Worker, entries: readonly NewEntry[]): Promise<string[]> {
  const now = monotonicMs()
  const rows = await lane.run<'position' | 'outcome'>(RECORD, [
    ...fences(entries.map(({ lease }) => lease)),
    numericArray(entries.map(({ place }) => place)),
    numericArray(entries.map(({ after }) => after)),
    entries.map(({ name }) => name),
    numericArray(entries.map(({ nth }) => nth)),
    entries.map(({ type }) => type),
    entries.map(({ state }) => state),
    numericArray(entries.map(({ attempt }) => Math.min(attempt, 32_767))),
    entries.map(({ result }) => result),
    entries.map(({ error }) => error),
    numericArray(entries.map(({ wakeMs }) => wakeMs ?? 'null')),
    numericArray(entries.map(({ signalId }) => signalId ?? 'null')),
    numericArray(entries.map(({ startedAt }) => Math.max(0, now - startedAt))),
    worker.id,
  ])
  const outcomes: string[] = []
  for (const { position, outcome } of rows) outcomes[Number(position) - 1] = outcome!
  return outcomes
}

type Column =
  | 'what'
  | 'id'
  | 'place'
  | 'name'
  | 'nth'
  | 'type'
  | 'state'
  | 'attempt'
  | 'wake_ms'
  | 'other_id'
  | 'result'
  | 'error'

async function load(lane: Lane, leases: readonly Lease[]): Promise<(Loaded | undefined)[]> {
  // One run may be asked for twice: its worker looks for signals whenever one is announced.
  const distinct = new Map(leases.map((lease) => [`${lease.jobId} ${lease.claimId}`, lease]))
  const rows = await lane.run<Column>(LOAD, fences([...distinct.values()]))
  const now = monotonicMs()
  const loaded = new Map<string, Loaded & { entries: Entry[]; signals: Signal[] }>()
  for (const row of rows) {
    if (row.what === 'run') {
      const cancelled = row.state === 'cancelled' ? { reason: row.result } : undefined
      const isPaused = row.state === 'paused'
      const startedAt = now + Number(row.wake_ms)
      loaded.set(row.id!, { runId: row.name ?? row.id!, startedAt, isPaused, cancelled, entries: [], signals: [] })
    } else if (row.what === 'step') loaded.get(row.id!)!.entries.push(toEntry(row, now))
    else loaded.get(row.id!)!.signals.push({ id: row.other_id!, name: row.name!, payload: row.result })
  }
  for (const { entries, signals } of loaded.values()) {
    entries.sort((one, other) => one.place - other.place)
    signals.sort(bySending)
  }
  return leases.map(({ jobId }) => {
    const run = loaded.get(jobId)
    return run && (run.signals.length < MANY_SIGNALS ? run : { ...run, signals: undefined })
  })
}

async function receive(lane: Lane, asked: readonly Awaited[]): Promise<Signal[][]> {
  const pairs = asked.flatMap(({ lease, names }, index) => names.map((name) => ({ index, lease, name })))
  const rows = await lane.run<'position' | 'id' | 'name' | 'payload'>(RECEIVE, [
    ...fences(pairs.map(({ lease }) => lease)),
    pairs.map(({ name }) => name),
  ])
  const received: Signal[][] = asked.map(() => [])
  for (const { position, id, name, payload } of rows) {
    received[pairs[Number(position) - 1]!.index]!.push({ id: id!, name: name!, payload })
  }
  for (const signals of received) signals.sort(bySending)
  return received
}

function bySending(one: Signal, other: Signal): number {
  return Number(BigInt(one.id) - BigInt(other.id))
}

function toEntry(row: Row<Column>, now: number): Entry {
  return {
    place: Number(row.place),
    type: row.type as EntryType,
    name: row.name!,
    nth: Number(row.nth),
    state: row.state as EntryState,
    attempt: Number(row.attempt),
    wakeAt: row.wake_ms === null ? undefined : now + Number(row.wake_ms),
    childId: (row.other_id as JobId | null) ?? undefined,
    result: row.result,
    error: row.error,
  }
}
