/** What an error says of another attempt. */
import { type Duration, durationMs } from '../core/duration.ts'
import { InvalidOptionError } from '../core/errors.ts'
import { Fatal, RetryAfter } from '../core/steering.ts'

export interface FailOptions {
  /** False: it stays in error, for a person to look at. Default: true, while attempts last. */
  readonly retry?: boolean
  /** Not before this long, instead of the backoff. */
  readonly after?: Duration
}

/** As its author asked for. */
export function retryOf(error: unknown): FailOptions {
  if (error instanceof Fatal) return { retry: false }
  return error instanceof RetryAfter ? { after: error.delayMs } : {}
}

/** Bad data, a broken constraint, no such column: the same every time. A timeout or a full disk may pass. */
export function isFinal(error: unknown): boolean {
  if (error instanceof InvalidOptionError || error instanceof TypeError) return true
  return /^(22|23|42)...$/.test(String((error as { code?: unknown } | null | undefined)?.code))
}

/** A backoff that is never shorter than this: a quarter of it is random, so the whole is a third longer. */
export function notBefore(after: Duration): { readonly firstMs: number; readonly maxMs: number } {
  const ms = (durationMs('fail.after', after) * 4) / 3
  return { firstMs: ms, maxMs: ms }
}
