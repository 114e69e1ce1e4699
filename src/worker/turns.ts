/**
 * Claims that go along with completions, in one statement and one commit (decisions/0031).
 *
 * A claim that is wanted while completions are about to leave goes with them. One that is wanted while a few are under way waits
 * until they are back, and goes with the next, or alone if there are none; but not where statements take long, since then the
 * wait would cost more than the statement that it saves. Large batches go by themselves: they gain nothing, and their claims
 * are better sent beside them.
 *
 * A lost reply leaves two questions, and each is asked as if its half had been sent alone: the claim is released by its id
 * (leases.ts), the completions are sent again and looked up if they are refused (outcomes.ts). No answer depends on the other.
 */
import { monotonicMs } from '../core/timer.ts'
import type { Lane } from '../db/lane.ts'
import { isAboutTheData } from '../db/refusal.ts'
import { type Claimed, type ClaimRequest, claimAndMeasure } from '../queue/claim.ts'
import type { Worker } from '../queue/job.ts'
import type { Walk } from '../queue/marks.ts'
import { type Completion, complete, MANY, type NotWritten, turn } from '../queue/outcome.ts'

/** Completions that are back so soon are worth waiting for. */
const SOON_MS = 5

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

  constructor(lane: Lane) {
    this.#lane = lane
  }

  /** One at a time. */
  claim(request: ClaimRequest, walk: Walk): Promise<Claimed> {
    if (!this.#isOpen) return claimAndMeasure(this.#lane, request, walk)
    return new Promise((resolve, reject) => {
      this.#waiting = { request, walk, resolve, reject }
    })
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
    try {
      const { ended, claimed } = await turn(lane, items, along.request, along.walk)
      along.resolve(claimed)
      return ended
    } catch (error) {
      // Refused for what is in the completions, and then nothing was claimed either.
      if (isAboutTheData(error)) this.#sendAlone(along)
      else along.reject(error)
      throw error
    }
  }

  #sendAlone({ request, walk, resolve, reject }: Waiting): void {
    this.#waiting = undefined
    void claimAndMeasure(this.#lane, request, walk).then(resolve, reject)
  }
}
