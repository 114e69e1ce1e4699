/** Whether and when a failed row is retried. */
import { type Duration, durationMs } from '../core/duration.ts'
import { describeError } from '../core/error-description.ts'
import { safeText } from '../core/safe-text.ts'
import { Cancel, Fatal, RetryAfter } from '../core/steering.ts'
import { isConflict } from '../db/conflict.ts'
import { isOutage } from '../db/outage.ts'

const MAX_ERROR_CHARS = 8_192

export interface FailOptions {
  /** False: the row stays in error until an operator acts. Default: true, while attempts are left. */
  readonly retry?: boolean
  /** Delay before the retry, instead of the backoff. */
  readonly after?: Duration
}

/** The retry that the handler asked for. A row has no status for cancelled work, so Cancel ends as Fatal does. */
export function retryOf(error: unknown): FailOptions {
  if (error instanceof Fatal || error instanceof Cancel) return { retry: false }
  return error instanceof RetryAfter ? { after: error.delayMs } : {}
}

/**
 * Temporary errors of Postgres, not about the statement: it is shutting down (57) or unreachable (08), another transaction
 * won (40) or holds a lock (55), it is out of resources (53), has an I/O error (58) or an internal error (XX), refuses
 * logins for now (28, 3D000), is read-only (25006), timed out (25P04), or a pooler has mixed up prepared statements (26000,
 * 42P05).
 */
const MAY_PASS = /^((08|28|40|53|55|57|58|XX)...|25006|25P04|26000|3D000|42P05)$/

/**
 * Whether recording it again would fail in the same way. Asked when the effect has happened and is not recorded yet, so both
 * mistakes cost. Retrying a permanent error holds a slot for as long as the claim can be renewed, an hour, and then repeats
 * the effect. Giving up on a temporary error leaves a healthy row in error, which a person can repair. So any error not
 * known to be temporary is final: a constraint, a trigger that raises (P0001), a value too long for an index (54000), a
 * missing column, and errors from before Postgres: an invalid option, a value that cannot be sent, a pool that was ended.
 *
 * A final error of a commit is recorded as a failure without a retry. A final error of fail() or release() is thrown, and
 * the row is reclaimed when its claim expires. In one update, the broker redelivers the message after an error that is
 * not final.
 */
export function isFinal(error: unknown): boolean {
  if (isOutage(error) || isConflict(error)) return false
  const { code, syscall, routine } = (error ?? {}) as { code?: unknown; syscall?: unknown; routine?: unknown }
  // A socket, or no file descriptor left for one: a Node error with a system call is not about the statement.
  if (typeof syscall === 'string') return false
  // "cached plan must not change result type", in any language: the table was altered, and Postgres plans anew next time.
  return routine !== 'RevalidateCachedQuery' && !MAY_PASS.test(String(code))
}

/** A backoff that is never shorter than this: a quarter of it is random, so the total is a third longer. */
export function notBefore(after: Duration): { readonly firstMs: number; readonly maxMs: number } {
  const ms = (durationMs('fail.after', after) * 4) / 3
  return { firstMs: ms, maxMs: ms }
}

/** Any thrown value as text that can be stored. */
export function lastError(error: unknown): string {
  const { name, message } = describeError(error)
  return safeText(`${name}: ${message}`, MAX_ERROR_CHARS)
}
