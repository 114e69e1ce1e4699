/** What an error says of another attempt. */
import { type Duration, durationMs } from '../core/duration.ts'
import { Cancel, Fatal, RetryAfter } from '../core/steering.ts'
import { describeError } from '../core/error-description.ts'
import { safeText } from '../core/safe-text.ts'
import { isConflict } from '../db/conflict.ts'
import { isOutage } from '../db/outage.ts'

const MAX_ERROR_CHARS = 8_192

export interface FailOptions {
  /** False: it stays in error, for a person to look at. Default: true, while attempts last. */
  readonly retry?: boolean
  /** Not before this long, instead of the backoff. */
  readonly after?: Duration
}

/** As its author asked for. A row has no status for what is no longer wanted, so Cancel ends as Fatal does. */
export function retryOf(error: unknown): FailOptions {
  if (error instanceof Fatal || error instanceof Cancel) return { retry: false }
  return error instanceof RetryAfter ? { after: error.delayMs } : {}
}

/**
 * What Postgres says of this moment and not of what it was asked: it is going (57) or cannot be reached (08), somebody else
 * was first (40) or holds a lock (55), there is no room (53), no disk (58), no sense (XX), no way in just now (28, 3D000), it
 * takes no writes (25006), took too long (25P04), or a pooler has mixed up prepared statements (26000, 42P05).
 */
const MAY_PASS = /^((08|28|40|53|55|57|58|XX)...|25006|25P04|26000|3D000|42P05)$/

/**
 * Whether to record it again would end in the same. Asked when the effect has happened and is not recorded yet, so both
 * mistakes cost: to insist on what never passes holds a slot for as long as the claim can be renewed, an hour, and then the
 * effect is done again; to give up what would have passed leaves a row in error that was well. A person can mend the second.
 * So what is not known to pass is final: a constraint, a trigger that raises (P0001), a value too long for an index (54000), a
 * missing column, and whatever never came to Postgres: an option of ours, a value that cannot be sent, a pool that was ended.
 *
 * The commit that is final is recorded as a failure without a next time; a failure or a release that is final is thrown, and
 * the row taken back when its claim is over. In one update what is not final makes the message come again.
 */
export function isFinal(error: unknown): boolean {
  if (isOutage(error) || isConflict(error)) return false
  const { code, syscall, routine } = (error ?? {}) as { code?: unknown; syscall?: unknown; routine?: unknown }
  // A socket, or no descriptor left for one: what Node says with the name of a system call is not about the statement.
  if (typeof syscall === 'string') return false
  // "cached plan must not change result type", in any language: the table was altered, and the next plan is a new one.
  return routine !== 'RevalidateCachedQuery' && !MAY_PASS.test(String(code))
}

/** A backoff that is never shorter than this: a quarter of it is random, so the whole is a third longer. */
export function notBefore(after: Duration): { readonly firstMs: number; readonly maxMs: number } {
  const ms = (durationMs('fail.after', after) * 4) / 3
  return { firstMs: ms, maxMs: ms }
}

/** What can be thrown can be stored. */
export function lastError(error: unknown): string {
  const { name, message } = describeError(error)
  return safeText(`${name}: ${message}`, MAX_ERROR_CHARS)
}
