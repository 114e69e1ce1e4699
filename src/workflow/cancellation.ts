import { CancelRequestedError, TimedOutError } from '../core/errors.ts'
import { Alarm, monotonicMs } from '../core/timer.ts'
import type { JobId } from '../jobs/job.ts'
import type { Loaded } from './journal.ts'

/**
 * Why the code of a run may do nothing new: its cancellation was requested, its deadline has passed, or it was being undone when its last
 * slice ended. The last one is known by the compensations on record.
 */
export class Cancellation {
  /** On the monotonic clock. */
  readonly #deadlineAt: number
  readonly #deadlineMs: number
  readonly #alarm = new Alarm(() => this.#ring())
  readonly #whenLate: (error: TimedOutError) => void
  readonly #jobId: JobId
  readonly #wasUndoing: boolean
  #error: CancelRequestedError | TimedOutError | undefined

  /** `whenLate`: when the deadline passes, unless the run is being cancelled by then. */
  constructor(
    jobId: JobId,
    { startedAt, cancelled, entries }: Loaded,
    deadlineMs: number | undefined,
    whenLate: (error: TimedOutError) => void,
  ) {
    this.#jobId = jobId
    this.#deadlineMs = deadlineMs ?? Number.POSITIVE_INFINITY
    this.#deadlineAt = startedAt + this.#deadlineMs
    this.#whenLate = whenLate
    this.#wasUndoing = entries.some(({ type }) => type === 'compensation')
    if (cancelled !== undefined) this.request()
    else this.#look()
    this.#alarm.set(this.wakesAt)
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

  request(error: CancelRequestedError | TimedOutError = new CancelRequestedError(this.#jobId)): void {
    this.#error ??= error
  }

  /** Watches for the deadline no more. */
  close(): void {
    this.#alarm.set(Number.POSITIVE_INFINITY)
  }

  /** Throws if nothing new may be done. */
  check(): void {
    if (this.#wasUndoing) this.request()
    this.#look()
    if (this.#error !== undefined) throw this.#error
  }

  #look(): void {
    if (this.#deadlineAt <= monotonicMs()) this.request(new TimedOutError('The run', this.#deadlineMs))
  }

  #ring(): void {
    if (this.isCancelled) return
    this.#look()
    if (this.#error instanceof TimedOutError) this.#whenLate(this.#error)
    else this.#alarm.set(this.#deadlineAt) // It was further away than a timer reaches.
  }
}
