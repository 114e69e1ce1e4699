/**
 * Errors by which a handler says what is to become of its job. Any other error means: try again after the kind's backoff,
 * while attempts last.
 */
import { type Duration, durationMs } from './duration.ts'

/** Do not try again: a dead letter now. */
export class Fatal extends Error {
  override readonly name = 'Fatal'
}

/** A failed attempt, tried again after this long instead of the kind's backoff. */
export class RetryAfter extends Error {
  override readonly name = 'RetryAfter'
  readonly delayMs: number

  constructor(delay: Duration, message = 'asked to be tried again later', options?: ErrorOptions) {
    super(message, options)
    this.delayMs = durationMs('delay', delay)
  }
}

/** Not now: again after this long, without an attempt spent. */
export class Snooze extends Error {
  override readonly name = 'Snooze'
  readonly delayMs: number

  constructor(delay: Duration) {
    super('asked to be run later')
    this.delayMs = durationMs('delay', delay)
  }
}

/** No longer wanted: cancelled. */
export class Cancel extends Error {
  override readonly name = 'Cancel'
}

/**
 * Thrown by an effect inside `job.once`: it certainly did not happen, so it may be begun again. The cause is what the
 * handler then sees, and may be any of the above; without one it is this error itself.
 */
export class NotDone extends Error {
  override readonly name = 'NotDone'

  constructor(message = 'the effect did not happen', options?: ErrorOptions) {
    super(message, options)
  }
}
