/**
 * The ledger's rows of this worker's claims that are done with: closes those whose jobs all have their outcome, and releases
 * those whose reply was lost.
 *
 * A claim that missed its deadline may be carried out later, and one of its jobs may be locked. So it is asked about until all of it
 * was released, or its lease would be over.
 */
import { monotonicMs } from '../core/timer.ts'
import type { Lane } from '../db/lane.ts'
import { closeClaims, releaseWhole } from '../jobs/claim.ts'
import type { ClaimId, Worker } from '../jobs/job.ts'
import { Loop, type LoopEvents } from '../runtime/loop.ts'

/** Claims are closed together: when there are so many, or after this long. */
const CLOSE_AT = 500
const CLOSE_EVERY_MS = 4_000

export class ClaimLedger {
  readonly #lane: Lane
  readonly #worker: Worker
  readonly #leaseMs: number
  readonly #loop: Loop
  #toClose: ClaimId[] = []
  /** Claims whose reply was lost, and until when they may turn up. */
  readonly #toRelease = new Map<ClaimId, number>()

  constructor(lane: Lane, worker: Worker, leaseMs: number, events: LoopEvents) {
    this.#lane = lane
    this.#worker = worker
    this.#leaseMs = leaseMs
    this.#loop = new Loop(() => this.#tick(), events, leaseMs / 6)
  }

  start(): void {
    this.#loop.start()
  }

  async stop(): Promise<void> {
    await this.#loop.stop()
    await Promise.all([this.#releaseAll(), this.#closeAll()])
  }

  close(id: ClaimId): void {
    this.#toClose.push(id)
    if (this.#toClose.length >= CLOSE_AT) this.#loop.nudge()
    else this.#loop.tickWithin(CLOSE_EVERY_MS)
  }

  release(id: ClaimId): void {
    this.#toRelease.set(id, monotonicMs() + this.#leaseMs)
    this.#loop.nudge()
  }

  async #tick(): Promise<number> {
    await this.#releaseAll()
    await this.#closeAll()
    return this.#toRelease.size > 0 ? this.#leaseMs / 6 : Number.POSITIVE_INFINITY
  }

  async #releaseAll(): Promise<void> {
    for (const [id, until] of this.#toRelease) {
      const isDone = await releaseWhole(this.#lane, this.#worker, id)
      if (isDone || monotonicMs() > until) this.#toRelease.delete(id)
    }
  }

  async #closeAll(): Promise<void> {
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
}
