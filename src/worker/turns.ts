/**
 * Claims that go along with completions, in one statement and one commit (decisions/0031).
 *
 * A claim that is wanted while completions are about to leave goes with them. One that is wanted while a few are under way waits
 * until they are back, and goes with the next, or alone if there are none; but not where statements take long, since then the
 * wait would cost more than the statement that it saves. No claim waits for outcomes other than completions. Large batches go by themselves: they gain nothing, and their claims
 * are better sent beside them.
 *
 * Small statements keep a distance. What ends, or is announced, within 5 ms of the last statement waits until these are over,
 * and all of it is one turn then. After a quiet moment nothing waits, and a claim for slots that a backlog can fill never does.
 * Each statement costs processor time before it does anything, and each answer wakes two processes. While the worker watches its queues
 * (watch.ts) the distance is 3.5 to 20 ms. What may not be held leaves after 5 ms at most. Claims that go alone then use the connection
 * of the completions, unless they take long: of two backends that take turns, each finds its memory gone from the processor's caches.
 *
 * A worker in the middle of a run keeps its claims apart from each other only. Its jobs end one after the other, often a few
 * milliseconds apart, and with the distance from each of their completions a job of any other key would start that much later. The
 * claim takes along what has ended, so there are at most twice as many statements, and none more where no queue is ordered.
 *
 * A completion may be held for longer, for a share of what its handler took (pending-outcome.ts), if another statement is likely to
 * come meanwhile, by the mean gap between those of late. Where jobs are few it leaves at once. A claim never waits for
 * that: it leaves when it is wanted, and takes along what is held.
 *
 * A lost reply leaves two questions, and each is asked as if its half had been sent alone: the claim is released by its id
 * (leases.ts), the completions are sent again and looked up if they are refused (outcomes.ts). No answer depends on the other.
 */
import { setImmediate } from 'node:timers/promises'
import { monotonicMs, Pause } from '../core/timer.ts'
import type { Lane } from '../db/lane.ts'
import { isAboutTheData } from '../db/refusal.ts'
import { type ClaimRequest, claimAndMeasure } from '../jobs/claim.ts'
import type { Claimed } from '../jobs/claimed.ts'
import { type Completion, complete, MANY, type NotWritten, turn } from '../jobs/completion.ts'
import type { Lease, Worker } from '../jobs/job.ts'
import type { Walk } from '../jobs/scan-walk.ts'

/** Completions that are back so soon are worth waiting for. */
const SOON_MS = 5
/** From one small statement to the next. While work comes steadily it is for what may not be held, at most. */
const DISTANCE_MS = 5
/** The mean gap is that of about so many statements, and a longer gap than this says no more. */
const MEAN_OF = 8
const LONGEST_GAP_MS = 100
/** If gaps are random, a statement comes within this share of the mean gap as often as not. */
const AS_OFTEN_AS_NOT = Math.LN2

interface Waiting {
  readonly request: ClaimRequest
  readonly walk: Walk
  resolve(claimed: Claimed): void
  reject(error: unknown): void
}

export class Turns {
  readonly #claims: Lane
  readonly completions: Lane
  #isOpen = false
  #waiting: Waiting | undefined
  #lastTookMs = 0
  #claimTookMs = 0
  #sentAt = Number.NEGATIVE_INFINITY
  #claimedAt = Number.NEGATIVE_INFINITY
  #gapMs = LONGEST_GAP_MS
  readonly #distance = new Pause()
  #isHolding = false
  /** The distance while work comes steadily. */
  steadyMs: number | undefined
  /** Completions leave now: the last moment to ask for a claim that could wait. */
  onLeaving: () => void = () => {}

  constructor(claims: Lane, completions: Lane) {
    this.#claims = claims
    this.completions = completions
  }

  /** For how long a claim that can wait should. */
  waitMs(inRun: boolean): number {
    return Math.max(0, (inRun ? this.#claimedAt : this.#sentAt) + this.#distanceMs - monotonicMs())
  }

  /** One at a time. */
  claim(request: ClaimRequest, walk: Walk): Promise<Claimed> {
    if (!this.#isOpen) return this.#alone(request, walk)
    return new Promise((resolve, reject) => {
      this.#waiting = { request, walk, resolve, reject }
      this.#distance.end()
    })
  }

  /**
   * Resolves when so many completions should leave, with those of the handlers that end in the same turn of the event loop. They may be
   * held until then, if another statement is likely to come.
   */
  async departure(completions: number, heldUntil = Number.NEGATIVE_INFINITY): Promise<void> {
    const waitMs = this.#leaveAt(heldUntil) - monotonicMs()
    if (waitMs > 0 && completions < MANY && this.#waiting === undefined) {
      this.#isHolding = true
      await this.#distance.wait(waitMs)
      this.#isHolding = false
      // The claim that is asked for is made in this turn.
      if (this.#waiting === undefined) this.onLeaving()
    }
    await setImmediate()
  }

  /** Completions wait for their departure. */
  get isHolding(): boolean {
    return this.#isHolding
  }

  /** So many completions are ready by now, and the last of them may be held until then. */
  ready(completions: number, heldUntil = Number.NEGATIVE_INFINITY): void {
    const leaveAt = this.#leaveAt(heldUntil)
    if (completions >= MANY || leaveAt <= monotonicMs()) this.leaveNow()
    else this.#distance.endBy(leaveAt)
  }

  /** What waits for its departure waits no longer. */
  leaveNow(): void {
    this.#distance.end()
  }

  get #distanceMs(): number {
    return this.steadyMs ?? DISTANCE_MS
  }

  #leaveAt(heldUntil: number): number {
    const mayBeHeld = heldUntil > Number.NEGATIVE_INFINITY
    const leaveAt = this.#sentAt + (mayBeHeld ? this.#distanceMs : Math.min(this.#distanceMs, DISTANCE_MS))
    const isLikely = this.#gapMs * AS_OFTEN_AS_NOT <= heldUntil - monotonicMs()
    return isLikely ? Math.max(leaveAt, heldUntil) : leaveAt
  }

  #sends(): number {
    const now = monotonicMs()
    this.#gapMs += (Math.min(now - this.#sentAt, LONGEST_GAP_MS) - this.#gapMs) / MEAN_OF
    this.#sentAt = now
    return now
  }

  /** Completions are about to leave. */
  open(): void {
    this.#isOpen = true
  }

  /** None are, for now. */
  close(): void {
    this.#isOpen = false
    if (this.#waiting !== undefined) this.#sendAlone(this.#waiting)
  }

  /** Completes, and sends the claim that waits along, if there is one. `written` as for complete(). */
  async complete(worker: Worker, items: readonly Completion[], written: Lease[] = []): Promise<NotWritten> {
    const isLarge = items.length >= MANY
    if (isLarge || this.#lastTookMs > SOON_MS) this.#isOpen = false
    const along = this.#waiting
    const sentAt = this.#sends()
    try {
      if (along === undefined) return await complete(this.completions, worker, items, written)
      if (isLarge) {
        this.#sendAlone(along)
        return await complete(this.completions, worker, items, written)
      }
      return await this.#together(items, along, written)
    } finally {
      this.#lastTookMs = monotonicMs() - sentAt
    }
  }

  async #together(items: readonly Completion[], along: Waiting, written: Lease[]): Promise<NotWritten> {
    this.#waiting = undefined
    this.#claimedAt = monotonicMs()
    const answer = await turn(this.completions, items, along.request, along.walk, written).catch((error) => {
      // Refused for what is in the completions, and then nothing was claimed either.
      if (isAboutTheData(error)) this.#sendAlone(along)
      else along.reject(error)
      throw error
    })
    along.resolve(answer.claimed)
    return answer.notWritten
  }

  #sendAlone({ request, walk, resolve, reject }: Waiting): void {
    this.#waiting = undefined
    void this.#alone(request, walk).then(resolve, reject)
  }

  async #alone(request: ClaimRequest, walk: Walk): Promise<Claimed> {
    const sharesConnection = this.steadyMs !== undefined && this.#claimTookMs <= SOON_MS
    const sentAt = this.#sends()
    this.#claimedAt = sentAt
    try {
      return await claimAndMeasure(sharesConnection ? this.completions : this.#claims, request, walk)
    } finally {
      this.#claimTookMs = monotonicMs() - sentAt
    }
  }
}
