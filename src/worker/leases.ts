/**
 * The leases this worker holds: renews them in good time, and gives them up in time.
 *
 * A lease begins when the database carries out the claim, which is after we sent it. So our own deadline, one lease after
 * sending less a margin, on the monotonic clock, is always earlier than the database's. When it passes without a renewal
 * known to have succeeded, nobody else can have the job yet, but might soon: running handlers are aborted then, and what
 * has not started never will. The alarm is set apart from renewing, because a renewal may hang.
 *
 * Renewal and cancellation have a connection of their own: a large batch of outcomes must not make them late.
 */
import { Alarm, monotonicMs } from '../core/timer.ts'
import type { Lane } from '../db/lane.ts'
import { closeClaims, releaseClaim, renew } from '../queue/claim.ts'
import type { ClaimedJob, ClaimId, Worker } from '../queue/job.ts'
import { cancelRequests } from '../queue/outcome.ts'
import { type Paused, pausedNow } from '../queue/pause.ts'
import type { HeldClaim, HeldJob } from './job.ts'
import { Loop, type LoopEvents } from '../runtime/loop.ts'

/** Cancellations and pauses are found within five seconds by a worker that does not listen. */
const LOOK_EVERY_MS = 4_000
/** So many claims without a job are closed at once; fewer, when there is something else to do. */
const CLOSE_AT = 500
const LARGEST_MARGIN_MS = 1_000

export interface LeaseEvents extends LoopEvents {
  /** The lease of this job is over, or may soon be. */
  lost(job: HeldJob): void
  /** Somebody wants this job cancelled. */
  cancel(job: HeldJob): void
  /** These are paused, so jobs of theirs that wait must not start. */
  paused(paused: Paused): void
  /** Now and then, while anything is held. */
  beat(): void
}

export class Leases {
  readonly #lane: Lane
  readonly #worker: Worker
  readonly #leaseMs: number
  readonly #events: LeaseEvents
  readonly #claims = new Map<ClaimId, HeldClaim>()
  readonly #loop: Loop
  readonly #alarm = new Alarm(() => this.#giveUp())
  /** Every job of theirs has its outcome, but the ledger does not know yet. */
  #toClose: ClaimId[] = []
  /** Claims whose reply was lost, and until when they may turn up. */
  readonly #strays = new Map<ClaimId, number>()
  #lookedAt = Number.NEGATIVE_INFINITY
  /** Something was held since the last tick. */
  #isUsed = false
  #isAsleep = false

  constructor(lane: Lane, worker: Worker, leaseMs: number, events: LeaseEvents) {
    this.#lane = lane
    this.#worker = worker
    this.#leaseMs = leaseMs
    this.#events = events
    // Renewing must not sleep through what is left of a short lease.
    this.#loop = new Loop(() => this.#tick(), events, leaseMs / 6)
  }

  start(): void {
    this.#loop.start()
  }

  /** Stops renewing, and leaves no claim behind of which every job has its outcome. */
  async stop(): Promise<void> {
    await this.#loop.stop()
    this.#alarm.set(Number.POSITIVE_INFINITY)
    await Promise.all([this.#releaseStrays(), this.#close()])
  }

  /** `sentAt`: when the claim was sent, or earlier. */
  hold(
    id: ClaimId,
    sentAt: number,
    jobs: readonly ClaimedJob[],
    hold: (job: ClaimedJob, claim: HeldClaim) => HeldJob,
  ): void {
    const deadline = this.#deadline(sentAt)
    const claim: HeldClaim = { id, open: [], renewedAt: sentAt, deadline, lost: false, leftToSweep: false }
    for (const claimed of jobs) {
      const job = hold(claimed, claim)
      job.openAt = claim.open.push(job) - 1
    }
    this.#claims.set(id, claim)
    this.#setAlarm()
    this.#isUsed = true
    if (this.#isAsleep) this.#loop.nudge()
    this.#isAsleep = false
  }

  /** Nothing of it can have started: whatever it took is handed back as soon as the database can be reached. */
  lostReply(id: ClaimId): void {
    this.#strays.set(id, monotonicMs() + this.#leaseMs)
    this.#loop.nudge()
  }

  /** Its outcome is known, or cannot be recorded. */
  done(job: HeldJob, recorded: boolean): void {
    const { claim } = job
    const last = claim.open.pop()!
    if (last !== job) {
      claim.open[job.openAt] = last
      last.openAt = job.openAt
    }
    if (!recorded) claim.leftToSweep = true
    if (claim.open.length > 0) return
    this.#claims.delete(claim.id)
    if (claim.lost || claim.leftToSweep) return
    this.#toClose.push(claim.id)
    if (this.#toClose.length === CLOSE_AT) this.#loop.nudge()
  }

  /** All whose outcome is not known. */
  jobs(): HeldJob[] {
    return [...this.#claims.values()].flatMap(({ open }) => open)
  }

  /** Somebody says that a job is to be cancelled; whether it is, the database knows. */
  lookForCancel(): void {
    this.#lookedAt = Number.NEGATIVE_INFINITY
    this.#loop.nudge()
  }

  async #tick(): Promise<number> {
    this.#events.beat()
    await this.#renew()
    if (this.#strays.size > 0) await this.#releaseStrays()
    if (this.#claims.size > 0 && monotonicMs() - this.#lookedAt >= LOOK_EVERY_MS) {
      this.#lookedAt = monotonicMs()
      await this.#lookForCancel()
      await this.#lookForPause()
    }
    if (this.#toClose.length > 0) await this.#close()
    this.#isAsleep = this.#claims.size === 0 && this.#strays.size === 0 && !this.#isUsed
    this.#isUsed = false
    if (this.#isAsleep) return Number.POSITIVE_INFINITY
    const lookInMs = this.#claims.size === 0 ? LOOK_EVERY_MS : this.#lookedAt + LOOK_EVERY_MS - monotonicMs()
    return Math.min(this.#leaseMs / 6, lookInMs)
  }

  async #renew(): Promise<void> {
    const sentAt = monotonicMs()
    const due = [...this.#claims.values()].filter(
      ({ lost, renewedAt }) => !lost && sentAt - renewedAt >= this.#leaseMs / 3,
    )
    if (due.length === 0) return
    const answer = await renew(
      this.#lane,
      this.#worker,
      due.map(({ id }) => id),
      this.#leaseMs,
    )
    const held = new Set(answer.held)
    for (const claim of due) {
      if (held.has(claim.id)) {
        claim.renewedAt = sentAt
        claim.deadline = this.#deadline(sentAt)
      } else if (claim.open.length > 0) this.#lose(claim)
    }
    this.#setAlarm()
  }

  async #lookForCancel(): Promise<void> {
    const held = this.jobs().filter(({ state }) => state !== 'reporting')
    if (held.length === 0) return
    const leases = held.map(({ claimed }) => claimed)
    const wanted = new Set(await cancelRequests(this.#lane, leases))
    for (const job of held) if (wanted.has(job.claimed.jobId)) this.#events.cancel(job)
  }

  /** What runs goes on, so there is nothing to ask while no job waits. */
  async #lookForPause(): Promise<void> {
    if (this.jobs().some(({ state }) => state === 'waiting')) this.#events.paused(await pausedNow(this.#lane))
  }

  // A statement that missed its deadline may be carried out later, so it is asked about until its lease would be over.
  async #releaseStrays(): Promise<void> {
    for (const [id, until] of this.#strays) {
      const released = await releaseClaim(this.#lane, this.#worker, id)
      if (released.length > 0 || monotonicMs() > until) this.#strays.delete(id)
    }
  }

  async #close(): Promise<void> {
    const ids = this.#toClose
    if (ids.length === 0) return
    this.#toClose = []
    try {
      await closeClaims(this.#lane, this.#worker, ids)
    } catch (error) {
      this.#toClose.push(...ids)
      throw error
    }
  }

  #deadline(sentAt: number): number {
    return sentAt + this.#leaseMs - Math.min(LARGEST_MARGIN_MS, this.#leaseMs / 10)
  }

  #giveUp(): void {
    const now = monotonicMs()
    for (const claim of this.#claims.values()) if (!claim.lost && claim.deadline <= now) this.#lose(claim)
    this.#setAlarm()
  }

  #lose(claim: HeldClaim): void {
    claim.lost = true
    for (const job of [...claim.open]) this.#events.lost(job)
  }

  #setAlarm(): void {
    let first = Number.POSITIVE_INFINITY
    for (const { lost, deadline } of this.#claims.values()) if (!lost && deadline < first) first = deadline
    this.#alarm.set(first)
  }
}
