import { type ConcurrentModificationError, LeaseLostError } from '../core/errors.ts'
import { monotonicMs } from '../core/timer.ts'
import type { Tx } from '../db/tx.ts'
import type { Effects, Once } from '../effects/once.ts'
import type { ClaimedJob, ClaimId, JobId } from '../jobs/job.ts'
import { msBetween } from '../jobs/stored-time.ts'
import type { KeptLease } from '../runtime/lease-keeper.ts'
import type { Batch } from './batch.ts'
import type { AbortReason, JobInfo, JobTimes } from './events.ts'
import type { Handler } from './handler.ts'
import type { Outcome } from './pending-outcome.ts'

/** What a handler gets. */
export interface Job<Input = unknown> {
  readonly id: JobId
  readonly kind: string
  readonly queue: string
  /** What the kind's schema made of the stored input. */
  readonly input: Input
  /** 1 for the first. */
  readonly attempt: number
  readonly maxAttempts: number
  /** The claim under which this handler runs, for `leasehold.assertLease`. */
  readonly claimId: ClaimId
  /** Grows with each claim, for the life of the job. Store it beside what you write elsewhere, and refuse lower ones. */
  readonly generation: number
  readonly partitionKey: string | null
  readonly metadata: Readonly<Record<string, unknown>> | null
  readonly enqueuedAt: Date
  /** Aborted when the lease is lost, the job is cancelled, its time is over, or the worker has to go. Pass it on. */
  readonly signal: AbortSignal
  /**
   * Ends the job inside your transaction: it is done exactly when that commits. Throws LeaseLostError when another worker
   * has the job by now; let it roll your transaction back.
   */
  complete(tx: Tx, result?: unknown): Promise<void>
  /**
   * Runs an effect at most once, however often the job runs: a repeat returns the stored result. With `{ tx }` marker and
   * effect commit together, or are undone if it throws. Without, the marker is committed first, and `ifUnknown` decides what a
   * crash in between means.
   * Throw NotDone in the effect when it certainly did not happen.
   */
  readonly once: Once
  /** For a service that takes idempotency keys: the same on every attempt, another for each job and name. */
  effectKey(name: string): string
  /**
   * Holds the lease until your transaction ends, so that no other worker can have the job before it commits; after a savepoint,
   * until you roll back to that. Throws LeaseLostError when another worker has it by now.
   */
  assertLease(tx: Tx): Promise<void>
  /** A note for people to see while the job runs. */
  progress(note: unknown): Promise<void>
}

/** A job of a batch. What has no outcome when the handler ends has the handler's: success if it returns, failure if it throws. */
export interface BatchJob<Input = unknown, Result = unknown> extends Job<Input> {
  /** This job has succeeded, whatever becomes of the others. */
  succeed(result?: Result): void
  /** This job has failed with the error, which may be Fatal, RetryAfter, Snooze or Cancel. */
  fail(error: unknown): void
}

/** A claim of ours whose jobs do not all have their outcome yet. */
export interface HeldClaim extends KeptLease {
  readonly id: ClaimId
  /** How many of its jobs have no known outcome. */
  open: number
  lost: boolean
  /** An outcome could not be recorded, so the ledger must keep the claim for the sweep to find the job. */
  leftToSweep: boolean
}

/**
 * behind: claimed, and another job of its run comes first. waiting: claimed, not started. running: in its handler. reporting:
 * its outcome is not known yet.
 */
type State = 'behind' | 'waiting' | 'running' | 'reporting' | 'done'

/** One claimed job, from claim to known outcome. */
export class HeldJob {
  readonly claimed: ClaimedJob
  readonly handler: Handler
  readonly claim: HeldClaim
  state: State = 'waiting'
  readonly heldSince: number
  /** When its handler began and ended. */
  startedAt: number | undefined
  endedAt: number | undefined
  /** Order of arrival in this worker. */
  sequence = 0
  /** The next of its run, while that is behind it, or in the same call. */
  next: HeldJob | undefined
  /** The one before it in its run, if both have started in one call. */
  ahead: HeldJob | undefined
  /** Its outcome, if it has ended before the one ahead. */
  kept: Outcome | undefined
  /** The call of a batch handler that it is in, once it has started. */
  batch: Batch | undefined
  aborted: AbortReason | undefined
  /** Another writer came first, so the handler yielded. */
  concurrentModification: ConcurrentModificationError | undefined
  /** Calls of complete(tx) that may have ended the job. */
  completions = 0
  /** Undefined while the handler has begun none. */
  effects: Effects | undefined
  #abort: AbortController | undefined
  #reason: Error | undefined

  constructor(claimed: ClaimedJob, handler: Handler, claim: HeldClaim, heldSince = monotonicMs()) {
    this.claimed = claimed
    this.handler = handler
    this.claim = claim
    this.heldSince = heldSince
  }

  get info(): JobInfo {
    const { jobId, kind, queue, partitionKey, generation, attempt } = this.claimed
    return { jobId, kind, queue, partitionKey, generation, attempt }
  }

  /** How long it waited and ran. */
  get times(): JobTimes {
    const { availableAt, claimedAt } = this.claimed
    const { startedAt = monotonicMs(), endedAt = startedAt } = this
    // Until its claim by the clock of the database, from then on by that of this process.
    const waitMs = Math.max(0, msBetween(availableAt, claimedAt)) + startedAt - this.heldSince
    return { waitMs, durationMs: endedAt - startedAt }
  }

  /** Both, for the event that every job has. Named one by one: spreads cost more than all the rest of counting it. */
  get infoAndTimes(): JobInfo & JobTimes {
    const { jobId, kind, queue, partitionKey, generation, attempt } = this.claimed
    const { waitMs, durationMs } = this.times
    return { jobId, kind, queue, partitionKey, generation, attempt, waitMs, durationMs }
  }

  /** Made when first asked for: most handlers never look. */
  get signal(): AbortSignal {
    this.#abort ??= new AbortController()
    if (this.aborted !== undefined && !this.#abort.signal.aborted) this.#abort.abort(this.#reason)
    return this.#abort.signal
  }

  /** The first reason counts. False if there was one before. */
  abort(reason: AbortReason, error: Error): boolean {
    if (this.aborted !== undefined) return false
    this.aborted = reason
    this.#reason = error
    this.#abort?.abort(error)
    this.batch?.aborted()
    return true
  }

  /** A transaction of the handler's may have ended the job. */
  get completedWithin(): boolean {
    return this.completions > 0
  }

  leaseIsOurs(now = monotonicMs()): boolean {
    return !this.claim.lost && now < this.claim.deadline
  }

  lost(): LeaseLostError {
    return new LeaseLostError(this.claimed)
  }
}
