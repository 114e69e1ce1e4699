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
import { once } from 'node:events'
import { CENTURY_MS } from '../core/duration.ts'
import { CancelRequestedError, LeaseLostError, type TimedOutError } from '../core/errors.ts'
import { Snooze } from '../core/steering.ts'
import { Alarm, monotonicMs, sleep } from '../core/timer.ts'
import { Busy } from './busy.ts'
import { Cancellation } from './cancellation.ts'
import type { Carrier } from './carrier.ts'
import { WorkflowChangedError } from './errors.ts'
import { Frontier } from './frontier.ts'
import type { Entry, EntryType, Journal, Loaded, Signal } from './journal.ts'
import { OpenNames } from './open-names.ts'
import { OpenWaits, type Ready } from './open-waits.ts'
import { ReceivedSignals } from './received-signals.ts'
import { type NewRecord, Records } from './records.ts'
import { type Call, Replay } from './replay.ts'
import { Stillness } from './stillness.ts'
import type { Workflow } from './workflow.ts'

/** Code that awaits something else than its run may take this long to reach the names on record. */
const LATE_MS = 1_000

export class Slice {
  readonly carrier: Carrier
  readonly runId: string
  readonly journal: Journal
  readonly replay: Replay
  readonly #workflow: string
  readonly signals: ReceivedSignals
  readonly #names = new OpenNames()
  readonly #waits = new OpenWaits()
  readonly #alarm = new Alarm(() => void this.#lookAgain(this.#waits.names))
  readonly #frontier = new Frontier()
  #isLive: boolean
  readonly #stillness = new Stillness(() => this.#isQuiet())
  readonly #busy = new Busy(this.#stillness)
  readonly records: Records
  readonly cancellation: Cancellation
  #recordedFirst: Promise<unknown> = Promise.resolve()
  #isCompensating = false
  #isOver = false
  /** For compensations: the slice is over. */
  readonly closing = new AbortController()
  /** For steps: the same, or the run is to be cancelled. */
  readonly aborting = new AbortController()
  #end: (error: unknown) => void = () => {}
  /** Rejects when the run parks, or can go on no more. */
  readonly over: Promise<never>

  constructor(workflow: Pick<Workflow, 'kind' | 'deadlineMs'>, carrier: Carrier, loaded: Loaded, journal: Journal) {
    this.#workflow = workflow.kind.name
    this.carrier = carrier
    this.journal = journal
    this.runId = loaded.runId
    this.replay = new Replay(loaded.entries)
    this.#isLive = loaded.entries.length === 0
    const receive = (names: readonly string[]) =>
      this.busy(() => journal.receive(carrier.claimed, names, () => carrier.leaseIsOurs()))
    this.signals = new ReceivedSignals(loaded.signals, receive)
    this.records = new Records(carrier.claimed, loaded.entries.at(-1)?.place ?? 0)
    this.cancellation = new Cancellation(carrier.claimed.jobId, loaded, workflow.deadlineMs, (late) =>
      this.#cancel(late),
    )
    this.over = new Promise((_, reject) => {
      this.#end = reject
    })
    this.over.catch(() => {})
    if (carrier.signal.aborted) this.#abort(carrier.signal.reason)
    else carrier.signal.addEventListener('abort', () => this.#abort(carrier.signal.reason), { once: true })
  }

  /**
   * No branch goes on from here: what was done is going to be undone. They stand still. A rejection in a branch that nothing awaits would
   * end the process. Resolves when the steps that run have ended.
   */
  async endBranches(): Promise<void> {
    this.#isCompensating = true
    this.#waits.forget()
    do await this.#busy.rest()
    while (this.replay.isDelivering)
    if (!this.#isLive) this.#checkReached()
    this.#isLive = true
  }

  /** The code has failed. Aborts the steps that run, and resolves when they have ended, so that no next attempt begins beside them. */
  async abortSteps(): Promise<void> {
    const { signal } = this.carrier
    this.close()
    if (!signal.aborted) await Promise.race([this.#busy.rest(), once(signal, 'abort')])
  }

  /** After a failure: resolves if the code may go on. */
  async goOn(): Promise<void> {
    if (this.#isOver || !this.carrier.leaseIsOurs()) return this.abandon()
    if (!this.#isCompensating) this.cancellation.check()
  }

  /** Another worker may have the run. The code stands still, as when it parks: rejections in its branches might end the process. */
  abandon(): Promise<never> {
    this.#stop(new LeaseLostError(this.carrier.claimed))
    return standStill()
  }

  /** Names of signals that may let a wait go on. */
  get awaited(): readonly string[] {
    return this.#isOver ? [] : this.#waits.names
  }

  /** A call of the code. */
  call(type: EntryType, name: string): Call {
    this.#names.check(type, name)
    this.#stillness.called()
    return this.replay.call(type, name)
  }

  /** While this runs, no other call of the same name may begin. */
  alone<T>(call: Call, work: () => Promise<T>): Promise<T> {
    return this.#names.during(call, work).finally(() => this.#stillness.called())
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
    if (call?.type !== 'compensation') await this.#recordedFirst // It was refused, if the run is being undone.
  }

  async #gate(call?: Call): Promise<void> {
    if (this.#isOver) return this.abandon()
    const isUndoing = call?.type === 'compensation'
    if (this.#isCompensating && !isUndoing) return standStill()
    if (!this.#isLive) {
      this.#stillness.watch()
      await this.#frontier.pass()
    }
    if (!isUndoing) this.cancellation.check()
  }

  /** Whether the run comes here for the first time. False: it has done what comes after this, in an earlier slice. */
  async isNew(): Promise<boolean> {
    if (this.#isLive) return true
    this.#stillness.watch()
    return this.#frontier.isNew()
  }

  /** The run does not park meanwhile. */
  async busy<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await this.#busy.while(work)
    } finally {
      if (this.#waits.size > 0) this.#stillness.watch()
    }
  }

  /** Stores a record under the run's fence. */
  record(call: Call, record: NewRecord): Promise<Entry> {
    return this.busy(async () => {
      const entry = this.records.newEntry(call, record)
      const turn = this.records.turn()
      try {
        if (!(await this.journal.add(entry, () => this.carrier.leaseIsOurs()))) return this.abandon()
        const recorded = this.records.acknowledge(entry)
        await turn.comes()
        return recorded
      } finally {
        void turn.over()
      }
    })
  }

  /** Signals that came since: their waits go on. */
  signalled(signals: readonly Signal[]): void {
    if (!this.#isOver && this.signals.add(signals)) void this.#lookAgain()
  }

  /** Waits until `ready` has an answer: when one of these signals comes, or at this time. */
  async wait<T>(names: readonly string[], until: number | undefined, ready: Ready<T>, undoes = false): Promise<T> {
    await this.signals.renew(names, until)
    if (this.#isOver) return this.abandon()
    // A branch may have passed the gate before the run was to be undone.
    if (this.#isCompensating && !undoes) return standStill()
    if (!undoes) this.cancellation.check()
    this.#stillness.watch()
    return this.#waits.add(names, until ?? Number.POSITIVE_INFINITY, ready)
  }

  /** The code has ended: names that it did not reach are an error, and what it left behind goes on no more. */
  async ended(): Promise<void> {
    if (this.#isLive || this.replay.unreached.length === 0) return
    await this.#stillness.rest()
    this.#checkReached()
  }

  #checkReached(): void {
    const { unreached } = this.replay
    if (unreached.length > 0) throw new WorkflowChangedError(this.#workflow, unreached)
  }

  /** Nothing new begins, and what runs is aborted. */
  close(reason?: unknown): void {
    this.#isOver = true
    this.closing.abort(reason)
    this.cancellation.close()
    this.aborting.abort(reason)
    this.#alarm.set(Number.POSITIVE_INFINITY)
  }

  async #lookAgain(names: readonly string[] = []): Promise<void> {
    await this.signals.ask(names)
    if (this.#isOver) return
    this.#waits.look()
    this.#stillness.watch()
  }

  #abort(reason: unknown): void {
    if (reason instanceof CancelRequestedError) this.#cancel(reason)
    else this.#stop(reason)
  }

  /** A run that is being undone goes on with it. */
  #cancel(reason: CancelRequestedError | TimedOutError): void {
    this.cancellation.request(reason)
    if (this.#isOver || this.#isCompensating) return
    this.aborting.abort(reason)
    if (!this.#isLive) return
    this.#waits.reject(reason)
    this.#frontier.reject(reason)
  }

  #stop(error: unknown): void {
    if (this.#isOver) return
    this.close(error)
    this.#end(error)
  }

  #isQuiet(): void {
    if (this.#isOver) return
    if (this.#busy.isBusy) {
      // Something runs beside the waits: they end by a timer of this process.
      if (this.signals.unasked.length > 0) void this.#lookAgain(this.signals.unasked)
      else this.#alarm.set(this.#waits.until)
    } else if (this.replay.isDelivering) this.#stillness.watch()
    else if (!this.#isLive) this.#endReplay()
    else if (this.#waits.size > 0) this.#park()
  }

  #endReplay(): void {
    const { unreached, isStuck } = this.replay
    if (this.#frontier.isEmpty && !isStuck) return
    const isBehind = unreached.length > 0 || isStuck
    // Also in a run that is cancelled: only what was reached is undone.
    if (isBehind && !this.#frontier.isAsked) return void this.#giveTime(this.#stillness.calls)
    this.#isLive = !isBehind || !this.#frontier.isAsked
    if (this.#isLive) this.#frontier.open()
    else this.#frontier.answer(false)
    this.#stillness.watch()
  }

  async #giveTime(calls: number): Promise<void> {
    await sleep(LATE_MS, this.closing.signal)
    if (this.#isOver || calls !== this.#stillness.calls) return
    this.#stop(new WorkflowChangedError(this.#workflow, this.replay.unreached))
  }

  #park(): void {
    const { names } = this.#waits
    const until = Math.min(this.cancellation.wakesAt, this.#waits.until)
    const delayMs = Math.min(Math.max(0, until - monotonicMs()), CENTURY_MS)
    // Without names, if it knows of its cancellation: then a request for it does not wake the run (job.settle).
    this.#stop(new Snooze(delayMs, this.cancellation.isCancelled ? undefined : names))
  }
}

function standStill(): Promise<never> {
  return new Promise(() => {})
}
