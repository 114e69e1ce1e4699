/**
 * The jobs in this process, from claim to known outcome: starts them, reports their outcome, releases those that must not start,
 * and aborts those that must stop.
 */
import { CancelRequestedError, StoppingError } from '../core/errors.ts'
import { Alarm, monotonicMs, sleep } from '../core/timer.ts'
import type { Connection } from '../db/connection.ts'
import type { Lane } from '../db/lane.ts'
import type { ClaimedJob, ClaimId, Worker } from '../jobs/job.ts'
import type { Paused } from '../jobs/pause.ts'
import type { AbortReason, Events } from './events.ts'
import { execute, failed } from './execute.ts'
import type { Handler } from './handler.ts'
import { type HeldClaim, HeldJob } from './job.ts'
import { Leases } from './leases.ts'
import { Load } from './load.ts'
import { OperatorWatch } from './operator-watch.ts'
import { announceOutcome, newTally } from './outcome-events.ts'
import { Outcomes } from './outcomes.ts'
import { Pauses } from './pauses.ts'
import type { Outcome, PendingOutcome, RecordedAs } from './pending-outcome.ts'
import { countWithRuns, cutRun, endRun, fallBack, hold, keptBehind, letNextWait } from './runs.ts'
import type { Slots } from './slots.ts'
import { RunningTimes, timedOut } from './timeouts.ts'
import type { Turns } from './turns.ts'

/** How long jobs are started without a look at anything else. */
const TURN_MS = 2
/** A job that was claimed ahead and has waited this long goes back, for others to run. */
const WAITS_AT_MOST_MS = 3_000

export interface RunnerOptions {
  readonly worker: Worker
  readonly handlers: ReadonlyMap<string, Handler>
  readonly slots: Slots
  readonly events: Events
  readonly leaseMs: number
  /** One connection each: a large batch of outcomes must not make a renewal late. */
  readonly outcomeLane: Lane
  readonly leaseLane: Lane
  readonly turns: Turns
  /** For what handlers ask of their jobs. */
  readonly connection: Connection
}

export class Runner {
  readonly tally = newTally()
  readonly load: Load
  /** A handler has ended, or an outcome is known. */
  onFreed: () => void = () => {}
  /** Completions have let in jobs of ordered queues. */
  onLetIn: (completed: readonly ClaimedJob[]) => void = () => {}
  readonly #leases: Leases
  readonly #options: RunnerOptions
  readonly #slots: Slots
  readonly #outcomes: Outcomes
  readonly #operators: OperatorWatch
  readonly #surplus = new Alarm(() => this.#releaseSurplus())
  readonly #times = new RunningTimes(
    (job) => this.#abort(job, 'timed_out', timedOut(job)),
    (job) => this.#end(job, failed(job, timedOut(job))),
  )
  readonly #pauses = new Pauses()
  #turnIsDue = false
  #turnEnds = Number.NEGATIVE_INFINITY
  #closed = false
  #noneRuns: (() => void) | undefined

  constructor(options: RunnerOptions) {
    const { worker, events, leaseMs, outcomeLane, leaseLane } = options
    this.#options = options
    this.#slots = options.slots
    this.load = new Load(options.slots)
    this.#slots.onCallEnded = () => this.#roomAgain()
    const recording = events.about('recording outcomes')
    this.#outcomes = new Outcomes(outcomeLane, worker, options.turns, options.slots.capacity, {
      known: (report, known) => this.#known(report, known),
      letIn: (completed) => this.onLetIn(completed),
      problem: recording.problem,
      worksAgain: () => {
        recording.worksAgain()
        this.#roomAgain()
      },
    })
    this.#leases = new Leases(leaseLane, worker, leaseMs, {
      lost: (claim) => this.#lost(claim),
      ...events.about('renewing leases'),
    })
    this.#operators = new OperatorWatch(leaseLane, {
      slots: options.slots,
      cancel: (job) => this.#cancel(job),
      pause: (paused) => this.pause(paused),
      ...events.about('looking for cancellations'),
    })
  }

  start(): void {
    this.#outcomes.start()
    this.#leases.start()
    this.#operators.start()
  }

  /** `sentAt`: when the claim was sent, or earlier. */
  claimed(claimId: ClaimId, sentAt: number, jobs: readonly ClaimedJob[]): void {
    const claim = this.#leases.hold(claimId, sentAt, countWithRuns(jobs))
    const now = monotonicMs()
    const { handlers } = this.#options
    const held = (claimed: ClaimedJob) => new HeldJob(claimed, handlers.get(claimed.kind)!, claim, now)
    for (const claimed of jobs) hold(this.#slots, claimed, held)
    this.#operators.begin()
    this.#surplus.setEarlier(now + WAITS_AT_MOST_MS)
    if (this.#closed) this.close()
    const paused = this.#pauses.since(sentAt)
    if (paused !== undefined) this.#releasePaused(paused)
    this.#startNextTurn()
  }

  /**
   * No job of these starts: those that wait are released, with no attempt spent. What runs goes on. Claims that are sent from
   * here on return none of them.
   */
  pause(paused: Paused): void {
    this.#pauses.note(paused)
    this.#releasePaused(paused)
  }

  /** Starts nothing from here on, and releases the jobs that wait. */
  close(): void {
    this.#closed = true
    this.#outcomes.hurry()
    for (const job of this.#slots.jobs('waiting')) this.#release(job)
  }

  /** Resolves when no handler runs, after `ms`, or when the signal aborts. */
  async untilNoneRuns(ms: number, signal: AbortSignal): Promise<void> {
    if (this.#slots.running === 0) return
    const timeIsUp = new AbortController()
    const none = new Promise<void>((resolve) => {
      this.#noneRuns = resolve
    })
    await Promise.race([none, sleep(ms, AbortSignal.any([signal, timeIsUp.signal]))])
    timeIsUp.abort()
  }

  abortAll(): void {
    for (const job of this.#slots.jobs('running')) this.#abort(job, 'stopping', new StoppingError())
  }

  /** Without waiting for their handlers. */
  releaseAll(): void {
    for (const job of this.#slots.jobs('running')) this.#end(job, { verb: 'release' })
  }

  /** Sends what is to be recorded, until the signal aborts. */
  async stop(giveUp: AbortSignal): Promise<void> {
    const aborted = new Promise((resolve) => {
      if (giveUp.aborted) resolve(undefined)
      giveUp.addEventListener('abort', resolve, { once: true })
    })
    await Promise.race([this.#outcomes.drained(), aborted])
    await Promise.all([this.#outcomes.stop(), this.#operators.stop()])
    this.#surplus.set(Number.POSITIVE_INFINITY)
    await this.#leases.stop().catch((error) => this.#options.events.problem('closing claims', error))
    this.#times.stop()
  }

  /** The claim's reply was lost, so none of its jobs can have started. */
  replyLost(claimId: ClaimId): void {
    this.#leases.replyLost(claimId)
  }

  /** An operator wants a job cancelled; the database knows whether it is one of ours. */
  lookForCancel(): void {
    this.#operators.lookNow()
  }

  /** Whether what is claimed now could be started soon. */
  get takesMore(): boolean {
    return !this.#outcomes.areStuck
  }

  /** `endedAt`: the handler that made room ended at this moment. */
  #startMore(endedAt?: number): void {
    for (let at = endedAt; !this.#closed && this.#slots.mayStart && this.#outcomes.takeMore; at = undefined) {
      const now = at ?? monotonicMs()
      if (now >= this.#turnEnds) {
        this.#startNextTurn()
        return
      }
      const job = this.#slots.start(now)
      if (job === undefined) return
      // Claimed, and then this process stood still: another worker may have the job by now.
      if (!job.leaseIsOurs(now)) this.#report(job, { verb: 'release' }, now)
      else
        for (let one: HeldJob | undefined = job; one !== undefined; one = this.#slots.startNext(one, now))
          this.#start(one, now)
    }
  }

  /**
   * Handlers that never wait would follow each other without end, and nothing else would happen in this process: no renewal,
   * no claim, no outcome sent. So they have turns, and between them the event loop has its own.
   */
  #startNextTurn(): void {
    if (this.#turnIsDue) return
    this.#turnIsDue = true
    setImmediate(() => {
      this.#turnIsDue = false
      this.#turnEnds = monotonicMs() + TURN_MS
      // While some waited for their turn the fetcher had no reason to claim, and slots may be left over.
      this.#roomAgain()
    })
  }

  #start(job: HeldJob, now: number): void {
    const { events, connection, worker } = this.#options
    if (events.hasListeners('started')) events.emit('started', { ...job.info, waitMs: job.times.waitMs })
    this.#times.watch(job, now)
    void execute(job, connection, worker).then((outcome) => this.#end(job, outcome))
  }

  /** The first outcome of a job counts: a handler that ends after its timeout changes nothing. */
  #end(job: HeldJob, outcome: Outcome): void {
    if (job.state !== 'running') return
    this.#times.forget(job)
    if (keptBehind(this.#slots, job, outcome, this.#times)) return
    const { next } = job
    const now = monotonicMs()
    this.#report(job, outcome, now)
    if (next?.kept !== undefined) this.#end(next, next.kept)
    if (this.#slots.running === 0) this.#noneRuns?.()
    // Rendering a result may take long, and whether the next job's lease still holds is judged by that moment.
    this.#roomAgain('result' in outcome && outcome.result !== undefined ? undefined : now)
  }

  #report(job: HeldJob, outcome: Outcome, now: number): void {
    this.#slots.ran(job, now)
    this.#outcomes.add(job, outcome)
    if (outcome.verb === 'complete') this.#startNextOfRun(job)
    else fallBack(this.#slots, job, this.#times)
  }

  #roomAgain(endedAt?: number): void {
    this.#startMore(endedAt)
    this.onFreed()
  }

  #known(report: PendingOutcome, known: RecordedAs): void {
    this.#slots.release(report.job)
    this.#leases.done(report.job.claim, known !== 'unrecordable')
    if (known === 'completed') this.#startNextOfRun(report.job)
    else for (const rest of endRun(this.#slots, report.job)) this.#leases.done(rest.claim, known !== 'unrecordable')
    this.load.note(report, known)
    announceOutcome(this.#options.events, this.tally, report, known)
    this.#roomAgain()
  }

  /** A job has succeeded: the next of its run may start. */
  #startNextOfRun(job: HeldJob): void {
    const next = letNextWait(this.#slots, job)
    // The call that one has fallen back from may still go on.
    if (next !== undefined && (this.#closed || next.batch !== undefined)) this.#release(next)
  }

  /** Releases the first of these jobs in each run, and with it the rest of the run. */
  #releaseThese(isMeant: (job: HeldJob) => boolean): void {
    for (const job of this.#slots.jobs('waiting', 'running', 'reporting')) {
      const first = job.state === 'waiting' && isMeant(job) ? job : cutRun(job, isMeant)
      if (first !== undefined) this.#release(first)
    }
  }

  #release(job: HeldJob): void {
    this.#slots.withdraw(job)
    this.#outcomes.add(job, { verb: 'release' })
  }

  #releasePaused({ queues, kinds }: Paused): void {
    this.#releaseThese(({ claimed: { queue, kind } }) => queues.has(queue) || kinds.has(kind))
  }

  #releaseSurplus(): void {
    const before = monotonicMs() - WAITS_AT_MOST_MS
    for (const job of this.#slots.jobs('waiting')) if (job.heldSince < before) this.#release(job)
    if (this.#slots.waiting > 0) this.#surplus.setEarlier(monotonicMs() + WAITS_AT_MOST_MS / 4)
  }

  #lost(claim: HeldClaim): void {
    for (const job of this.#slots.jobs('waiting', 'running')) {
      if (job.claim !== claim) continue
      if (job.state === 'waiting') this.#release(job)
      else this.#abort(job, 'lease_lost', job.lost())
    }
  }

  #cancel(job: HeldJob): void {
    // A job whose cancellation is requested is cancelled when it is released.
    if (job.state === 'waiting' || job.state === 'behind') this.#releaseThese((one) => one === job)
    else if (job.state === 'running') this.#abort(job, 'cancelled', new CancelRequestedError(job.claimed.jobId))
  }

  #abort(job: HeldJob, reason: AbortReason, error: Error): void {
    if (job.abort(reason, error)) this.#options.events.emit('aborted', { ...job.info, reason })
  }
}
