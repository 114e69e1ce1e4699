/**
 * Claims that go along with completions, in one statement and one commit (decisions/0031).
 *
 * A claim that is wanted while completions are about to leave goes with them. One that is wanted while a few are under way waits
 * until they are back, and goes with the next, or alone if there are none; but not where statements take long, since then the
 * wait would cost more than the statement that it saves. Large batches go by themselves: they gain nothing, and their claims
 * are better sent beside them.
 *
 * Small statements keep a distance. What ends, or is announced, within 5 ms of the last statement waits until these are over,
 * and all of it is one turn then. After a quiet moment nothing waits, and a claim for slots that a backlog can fill never does.
 * Each statement costs processor time before it does anything, and each answer wakes two processes.
 *
 * A lost reply leaves two questions, and each is asked as if its half had been sent alone: the claim is released by its id
 * (leases.ts), the completions are sent again and looked up if they are refused (outcomes.ts). No answer depends on the other.
 */
import { setImmediate } from 'node:timers/promises'
import { monotonicMs, Pause } from '../core/timer.ts'
import type { Lane } from '../db/lane.ts'
import { isAboutTheData } from '../db/refusal.ts'
import { type Claimed, type ClaimRequest, claimAndMeasure } from '../jobs/claim.ts'
import { type Completion, complete, MANY, type NotWritten, turn } from '../jobs/completion.ts'
import type { Worker } from '../jobs/job.ts'
import type { Walk } from '../jobs/scan-cursors.ts'

/** Completions that are back so soon are worth waiting for. */
const SOON_MS = 5
/** From one small statement to the next. */
const DISTANCE_MS = 5

interface Waiting {
  readonly request: ClaimRequest
  readonly walk: Walk
  resolve(claimed: Claimed): void
  reject(error: unknown): void
}

export class Turns {
  /** Of claims that go alone. */
  readonly #lane: Lane
  #isOpen = false
  #waiting: Waiting | undefined
  #lastTookMs = 0
  #sentAt = Number.NEGATIVE_INFINITY
  readonly #distance = new Pause()
  /** Completions leave now: the last moment to ask for a claim that could wait. */
  onLeaving: () => void = () => {}

  constructor(lane: Lane) {
    this.#lane = lane
  }

  /** For how long what can wait should. */
  get waitMs(): number {
    return Math.max(0, this.#sentAt + DISTANCE_MS - monotonicMs())
  }

  /** One at a time. */
  claim(request: ClaimRequest, walk: Walk): Promise<Claimed> {
    if (!this.#isOpen) return this.#alone(request, walk)
    return new Promise((resolve, reject) => {
      this.#waiting = { request, walk, resolve, reject }
      this.#distance.end()
    })
  }

  /** Resolves when so many completions should leave. */
  async departure(completions: number): Promise<void> {
    const waitMs = this.waitMs
    if (waitMs === 0 || completions >= MANY || this.#waiting !== undefined) return
    await this.#distance.wait(waitMs)
    if (this.#waiting !== undefined) return
    this.onLeaving()
    // The claim that was asked for is made meanwhile.
    await setImmediate()
  }

  /** So many completions are ready by now. */
  ready(completions: number): void {
    if (completions === MANY) this.#distance.end()
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

  /** Completes, and sends the claim that waits along, if there is one. */
  async complete(lane: Lane, worker: Worker, items: readonly Completion[]): Promise<NotWritten> {
    const isLarge = items.length >= MANY
    if (isLarge || this.#lastTookMs > SOON_MS) this.#isOpen = false
    const along = this.#waiting
    const sentAt = monotonicMs()
    this.#sentAt = sentAt
    try {
      if (along === undefined) return await complete(lane, worker, items)
      if (isLarge) {
        this.#sendAlone(along)
        return await complete(lane, worker, items)
      }
      return await this.#together(lane, items, along)
    } finally {
      this.#lastTookMs = monotonicMs() - sentAt
    }
  }

  async #together(lane: Lane, items: readonly Completion[], along: Waiting): Promise<NotWritten> {
    this.#waiting = undefined
    const answer = await turn(lane, items, along.request, along.walk).catch((error) => {
      // Refused for what is in the completions, and then nothing was claimed either.
      if (isAboutTheData(error)) this.#sendAlone(along)
      else along.reject(error)
      throw error
    })
    along.resolve(answer.claimed)
    return answer.ended
  }

  #sendAlone({ request, walk, resolve, reject }: Waiting): void {
    this.#waiting = undefined
    void this.#alone(request, walk).then(resolve, reject)
  }

  #alone(request: ClaimRequest, walk: Walk): Promise<Claimed> {
    this.#sentAt = monotonicMs()
    return claimAndMeasure(this.#lane, request, walk)
  }
}
