import { CancelRequestedError, TimedOutError } from '../core/errors.ts'
import { monotonicMs } from '../core/timer.ts'
import type { JobId } from '../jobs/job.ts'
import type { Loaded } from './journal.ts'

/**
 * Why the code of a run may do nothing new: its cancellation was requested, its deadline has passed, or it was being undone when its last
 * slice ended. The last one is known by the compensations on record.
 */
export class Cancellation {
  /** On the monotonic clock. */
  readonly #deadlineAt: number
  readonly #jobId: JobId
  readonly #wasUndoing: boolean
  #error: CancelRequestedError | TimedOutError | undefined

  constructor(jobId: JobId, { startedAt, cancelled, entries }: Loaded, deadlineMs: number | undefined) {
    this.#jobId = jobId
    this.#deadlineAt = startedAt + (deadlineMs ?? Number.POSITIVE_INFINITY)
    this.#wasUndoing = entries.some(({ type }) => type === 'compensation')
    if (cancelled !== undefined) this.request()
    else if (this.#deadlineAt <= monotonicMs()) this.#error = new TimedOutError('The run', deadlineMs!)
  }

  get isCancelled(): boolean {
    return this.#error !== undefined
  }

  /** When a run that waits must hear of its deadline. Not again while it is being undone, or it would never wait. */
  get wakesAt(): number {
    return this.isCancelled ? Number.POSITIVE_INFINITY : this.#deadlineAt
  }

  get isLate(): boolean {
    return this.#error instanceof TimedOutError
  }

  request(error = new CancelRequestedError(this.#jobId)): void {
    this.#error ??= error
  }

  /** Throws if nothing new may be done. */
  check(): void {
    if (this.#wasUndoing) this.request()
    if (this.#error !== undefined) throw this.#error
  }
}
