/**
 * One execution of a run's code in this process, from its claim to its result, its failure or its next wait.
 *
 * The code runs from its start. Calls that are on record get their results (replay.ts). The first call that is not waits until no
 * branch can advance on recorded results. Then every name on record must have been reached, or the code was changed in a way that
 * the run cannot follow, which is found before anything is done. From there on the slice is live: steps run, and are recorded.
 *
 * When every branch waits for time or for signals, the run parks: its job becomes available at the earliest of these times, or when one
 * of the signals comes. No process, timer or connection is kept for it.
 *
 * "Every branch waits" is seen from outside: nothing runs, nothing is being recorded, something waits, and two turns of the event loop
 * have passed without a call. So code must await nothing but its run between steps; anything else belongs into a step.
 */
import { CENTURY_MS } from '../core/duration.ts'
import { CancelRequestedError, InvalidOptionError, LeaseLostError, TimedOutError } from '../core/errors.ts'
import { Snooze } from '../core/steering.ts'
import { Alarm, monotonicMs, sleep } from '../core/timer.ts'
import type { ClaimedJob } from '../jobs/job.ts'
import { StoppedError, WorkflowChangedError } from './errors.ts'
import type { Entry, EntryType, Journal, Loaded, Signal } from './journal.ts'
import { OpenWaits } from './open-waits.ts'
import { ReceivedSignals } from './received-signals.ts'
import { type NewRecord, Records } from './records.ts'
import { type Call, Replay } from './replay.ts'
import { Stillness } from './stillness.ts'
import type { Workflow } from './workflow.ts'

/** Code that awaits something else than its run may take this long to reach the names on record. */
const LATE_MS = 1_000

/** What the worker knows of the job that carries the run. */
export interface Carrier {
  readonly claimed: ClaimedJob
  readonly signal: AbortSignal
  leaseIsOurs(): boolean
}

export class Slice {
  readonly carrier: Carrier
  readonly runId: string
  readonly journal: Journal
  readonly replay: Replay
  readonly #workflow: string
  readonly signals: ReceivedSignals
  readonly #names = new Set<string>()
  readonly #waits = new OpenWaits()
  readonly #alarm = new Alarm(() => this.#lookAgain())
  #atGate: { resolve(): void; reject(error: unknown): void }[] = []
  #isLive: boolean
  /** Steps that run, and records on their way. */
  #busy = 0
  readonly #whenIdle: (() => void)[] = []
  readonly #stillness = new Stillness(() => this.#isQuiet())
  readonly records: Records
  /** Why its code may go on no more: its cancellation was requested, or its deadline has passed. */
  #cancelled: CancelRequestedError | TimedOutError | undefined
  readonly #deadlineAt: number
  #recordedFirst: Promise<unknown> = Promise.resolve()
  #isCompensating = false
  #isOver = false
  #end: (error: unknown) => void = () => {}
  /** Rejects when the run parks, or can go on no more. */
  readonly over: Promise<never>

  constructor(workflow: Pick<Workflow, 'kind' | 'deadlineMs'>, carrier: Carrier, loaded: Loaded, journal: Journal) {
    this.#workflow = workflow.kind.name
    this.#deadlineAt = loaded.startedAt + (workflow.deadlineMs ?? Number.POSITIVE_INFINITY)
    this.carrier = carrier
    this.journal = journal
    this.runId = loaded.runId
    this.replay = new Replay(loaded.entries)
    this.#isLive = loaded.entries.length === 0
    this.signals = new ReceivedSignals(loaded.signals)
    this.records = new Records(carrier.claimed, loaded.entries.at(-1)?.place ?? 0)
    if (loaded.cancelled !== undefined) this.#cancelled = new CancelRequestedError(carrier.claimed.jobId)
    else this.#lookAtDeadline(workflow.deadlineMs)
    this.over = new Promise((_, reject) => {
      this.#end = reject
    })
    this.over.catch(() => {})
    if (carrier.signal.aborted) this.#abort(carrier.signal.reason)
    else carrier.signal.addEventListener('abort', () => this.#abort(carrier.signal.reason), { once: true })
  }

  get isCancelled(): boolean {
    return this.#cancelled !== undefined
  }

  get isLate(): boolean {
    return this.#cancelled instanceof TimedOutError
  }

  #lookAtDeadline(deadlineMs: number | undefined): void {
    if (this.#deadlineAt <= monotonicMs()) this.#cancelled = new TimedOutError('The run', deadlineMs!)
  }

  /** No branch goes on from here: what was done is going to be undone. Resolves when the steps that run have ended. */
  async endBranches(): Promise<void> {
    this.#isCompensating = true
    const error = new StoppedError()
    this.#waits.reject(error)
    do {
      if (this.#busy > 0) await new Promise<void>((resolve) => this.#whenIdle.push(resolve))
      await this.#stillness.rest()
    } while (this.#busy > 0 || this.replay.isDelivering)
    const { unreached } = this.replay
    if (!this.#isLive && !this.isCancelled && unreached.length > 0)
      throw new WorkflowChangedError(this.#workflow, unreached)
    this.#isLive = true
  }

  throwIfStopped(): void {
    const { signal } = this.carrier
    if (this.#isOver || !this.carrier.leaseIsOurs()) throw this.lost()
    if (signal.aborted && !this.#isCompensating) throw signal.reason
  }

  /** Whether a signal or a child that ends may let a wait go on. */
  get awaitsSignals(): boolean {
    return !this.#isOver && this.#waits.names.length > 0
  }

  /** A call of the code. */
  call(type: EntryType, name: string): Call {
    const open = `${type} ${name}`
    if (this.#names.has(open)) {
      throw new InvalidOptionError(open, 'another one of this name is under way; give each its own, such as [name, id]')
    }
    this.#stillness.called()
    return this.replay.call(type, name)
  }

  /** While this runs, no other call of the same name may begin. */
  async alone<T>({ type, name }: Call, work: () => Promise<T>): Promise<T> {
    const open = `${type} ${name}`
    this.#names.add(open)
    try {
      return await work()
    } finally {
      this.#names.delete(open)
      this.#stillness.called()
    }
  }

  /** The result that is on record. */
  deliver(entry: Entry): Promise<Entry> {
    this.#stillness.watch()
    return this.replay.deliver(entry)
  }

  /** Records a decision of the code. It goes on at once, but does nothing new before that is on record. */
  recordFirst(call: Call): void {
    const before = this.#recordedFirst
    this.#recordedFirst = this.#gate(call)
      .then(() => before)
      .then(() => this.record(call, { state: 'recorded', result: 'true' }))
    this.#recordedFirst.catch(() => {}) // Thrown at the next gate.
  }

  /** Resolves when the run may do something new. */
  async gate(call?: Call): Promise<void> {
    await this.#gate(call)
    await this.#recordedFirst
  }

  async #gate(call?: Call): Promise<void> {
    if (this.#isOver) return new Promise(() => {})
    const isUndoing = call?.type === 'compensation'
    if (this.#isCompensating && !isUndoing) throw new StoppedError()
    if (!this.#isLive) {
      this.#stillness.watch()
      await new Promise<void>((resolve, reject) => this.#atGate.push({ resolve, reject }))
    }
    const { signal } = this.carrier
    if (isUndoing && (!signal.aborted || this.isCancelled)) return
    if (this.#cancelled !== undefined) throw this.#cancelled
    if (signal.aborted) throw signal.reason
  }

  waitUntil(at: number): Promise<true> {
    return this.wait([], at, () => (at <= monotonicMs() ? true : undefined))
  }

  /** The run does not park meanwhile. */
  async busy<T>(work: () => Promise<T>): Promise<T> {
    this.#busy++
    try {
      return await work()
    } finally {
      this.#busy--
      this.#stillness.called()
      if (this.#busy === 0) for (const resolve of this.#whenIdle.splice(0)) resolve()
      if (this.#waits.size > 0) this.#stillness.watch()
    }
  }

  /** Stores a record under the run's fence. Throws LeaseLostError if another worker has the run. */
  record(call: Call, record: NewRecord): Promise<Entry> {
    return this.busy(async () => {
      const entry = this.records.newEntry(call, record)
      const isRecorded = await this.journal.add(entry, () => this.carrier.leaseIsOurs())
      if (!isRecorded) throw this.lost()
      return this.records.acknowledge(entry)
    })
  }

  /** Another worker has the run: this slice writes nothing more. */
  lost(): LeaseLostError {
    const error = new LeaseLostError(this.carrier.claimed)
    this.#stop(error)
    return error
  }

  /** Signals that came since: their waits go on. */
  signalled(signals: readonly Signal[]): void {
    if (!this.#isOver && this.signals.add(signals)) this.#lookAgain()
  }

  /** Waits until `ready` has an answer: when one of these signals comes, or at this time. */
  async wait<T>(names: readonly string[], until: number | undefined, ready: () => T | undefined): Promise<T> {
    if (this.#isOver) return new Promise(() => {})
    if (this.#isStopped) throw this.#cancelled ?? this.carrier.signal.reason
    this.#stillness.watch()
    return this.#waits.add(names, until ?? Number.POSITIVE_INFINITY, ready)
  }

  /** The code has ended: names that it did not reach are an error, and what it left behind goes on no more. */
  async ended(): Promise<void> {
    if (!this.#isLive && this.replay.unreached.length > 0) {
      await this.#stillness.rest()
      if (this.replay.unreached.length > 0) throw new WorkflowChangedError(this.#workflow, this.replay.unreached)
    }
  }

  close(): void {
    this.#isOver = true
    this.#alarm.set(Number.POSITIVE_INFINITY)
  }

  get #isStopped(): boolean {
    if (this.isCancelled) return this.#isLive && !this.#isCompensating
    return this.carrier.signal.aborted
  }

  #lookAgain(): void {
    this.#waits.look()
    this.#stillness.watch()
  }

  #abort(reason: unknown): void {
    if (reason instanceof CancelRequestedError) {
      this.#cancelled ??= reason
      if (this.#isCompensating || !this.#isLive) return
    } else this.#stop(reason)
    this.#waits.reject(reason)
    for (const { reject } of this.#atGate.splice(0)) reject(reason)
  }

  #stop(error: unknown): void {
    if (this.#isOver) return
    this.close()
    this.#end(error)
  }

  #isQuiet(): void {
    if (this.#isOver) return
    if (this.#busy > 0) {
      // Something runs beside the waits: they end by a timer of this process.
      this.#alarm.set(this.#waits.until)
      return
    }
    if (!this.#isLive) this.#endReplay()
    else if (this.#waits.size > 0) this.#park()
  }

  #endReplay(): void {
    const { unreached, isStuck } = this.replay
    if (this.#atGate.length === 0 && this.#waits.size === 0 && !isStuck) return
    if ((unreached.length > 0 || isStuck) && !this.isCancelled) return void this.#giveTime(this.#stillness.calls)
    this.#isLive = true
    if (this.isCancelled) this.#waits.reject(this.#cancelled)
    for (const { resolve } of this.#atGate.splice(0)) resolve()
    this.#stillness.watch()
  }

  async #giveTime(calls: number): Promise<void> {
    await sleep(LATE_MS, this.carrier.signal)
    if (this.#isOver || calls !== this.#stillness.calls) return
    this.#stop(new WorkflowChangedError(this.#workflow, this.replay.unreached))
  }

  #park(): void {
    const { names } = this.#waits
    const until = Math.min(this.#deadlineAt, this.#waits.until)
    const delayMs = Math.min(Math.max(0, until - monotonicMs()), CENTURY_MS)
    this.#stop(new Snooze(delayMs, names.length > 0 ? names : undefined))
  }
}
