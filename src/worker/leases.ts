/**
 * The claims this worker holds: keeps their leases (runtime/lease-keeper.ts), and notices when one is lost.
 *
 * Renewing has a connection of its own, shared only with the ledger and with looks for cancellations: a large batch of outcomes
 * must not make a renewal late.
 */
import { monotonicMs } from '../core/timer.ts'
import type { Lane } from '../db/lane.ts'
import { renew } from '../jobs/claim.ts'
import type { ClaimId, Worker } from '../jobs/job.ts'
import { LeaseKeeper } from '../runtime/lease-keeper.ts'
import type { LoopEvents } from '../runtime/loop.ts'
import { ClaimLedger } from './claim-ledger.ts'
import type { HeldClaim } from './job.ts'

export interface LeaseEvents extends LoopEvents {
  /** The lease of this claim is over, or may soon be. */
  lost(claim: HeldClaim): void
}

export class Leases {
  readonly #lane: Lane
  readonly #worker: Worker
  readonly #leaseMs: number
  readonly #events: LeaseEvents
  readonly #keeper: LeaseKeeper<HeldClaim>
  readonly #ledger: ClaimLedger

  constructor(lane: Lane, worker: Worker, leaseMs: number, events: LeaseEvents) {
    this.#lane = lane
    this.#worker = worker
    this.#leaseMs = leaseMs
    this.#events = events
    this.#keeper = new LeaseKeeper(leaseMs, {
      renew: (due) => this.#renew(due),
      expired: (claim) => this.#lose(claim),
      ...events,
    })
    this.#ledger = new ClaimLedger(lane, worker, leaseMs, events)
  }

  start(): void {
    this.#keeper.start()
    this.#ledger.start()
  }

  /** Renews no more, and leaves no claim in the ledger of which every job has its outcome. */
  async stop(): Promise<void> {
    await this.#keeper.stop()
    await this.#ledger.stop()
  }

  /** Holds a claim of so many jobs. `sentAt`: when it was sent, or earlier. */
  hold(id: ClaimId, sentAt: number, jobs: number): HeldClaim {
    const claim: HeldClaim = { id, open: jobs, grantedUntil: 0, deadline: 0, lost: false, leftToSweep: false }
    this.#keeper.granted(claim, sentAt + this.#leaseMs)
    this.#keeper.keep(claim)
    return claim
  }

  /** The claim's reply was lost, so none of its jobs can have started. It is released as soon as the database answers. */
  replyLost(id: ClaimId): void {
    this.#ledger.release(id)
  }

  /** The outcome of one of its jobs is known, or cannot be recorded. */
  done(claim: HeldClaim, isRecorded: boolean): void {
    claim.open--
    if (!isRecorded) claim.leftToSweep = true
    if (claim.open > 0) return
    this.#keeper.release(claim)
    if (!claim.lost && !claim.leftToSweep) this.#ledger.close(claim.id)
  }

  async #renew(due: readonly HeldClaim[]): Promise<void> {
    const sentAt = monotonicMs()
    const ids = due.map(({ id }) => id)
    const held = new Set((await renew(this.#lane, this.#worker, ids, this.#leaseMs)).held)
    for (const claim of due) {
      if (held.has(claim.id)) this.#keeper.granted(claim, sentAt + this.#leaseMs)
      else if (this.#keeper.release(claim)) this.#lose(claim)
    }
  }

  #lose(claim: HeldClaim): void {
    claim.lost = true
    this.#events.lost(claim)
  }
}
