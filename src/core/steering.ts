/**
 * Errors by which a handler decides the outcome of its job. Any other error means: retry after the kind's backoff, while
 * attempts are left.
 */
import { type Duration, durationMs } from './duration.ts'

/** No retry: the job becomes a dead letter now. */
export class Fatal extends Error {
  override readonly name = 'Fatal'
}

/** A failed attempt, retried after this delay instead of the kind's backoff. */
export class RetryAfter extends Error {
  override readonly name = 'RetryAfter'
  readonly delayMs: number

  constructor(delay: Duration, message = 'retry requested by the handler', options?: ErrorOptions) {
    super(message, options)
    this.delayMs = durationMs('delay', delay)
  }
}

/** Runs the job again after this delay. No attempt is spent. */
export class Snooze extends Error {
  override readonly name = 'Snooze'
  readonly delayMs: number
  /** Signals that end the delay, for the run of a workflow. */
  readonly waitsFor: readonly string[] | undefined

  constructor(delay: Duration, waitsFor?: readonly string[]) {
    super('snoozed by the handler')
    this.delayMs = durationMs('delay', delay)
    this.waitsFor = waitsFor
  }
}

/** The job is no longer wanted: it is cancelled. */
export class Cancel extends Error {
  override readonly name = 'Cancel'
}

/**
 * Thrown by an effect inside `job.once`: it certainly did not happen, so it may begin again. The handler then receives
 * the cause, which may be any of the above, or this error if there is none.
 */
export class NotDone extends Error {
  override readonly name = 'NotDone'

  constructor(message = 'the effect did not happen', options?: ErrorOptions) {
    super(message, options)
  }
}
