/**
 * Conflicts that Postgres settles by giving up one of two transactions: 40001, it could not be serialized (REPEATABLE READ
 * and SERIALIZABLE), and 40P01, it was part of a deadlock. Nothing was changed, so the loser may begin again.
 */
import { TransactionConflictError } from '../core/errors.ts'
import { sleep } from '../core/timer.ts'

const ATTEMPTS = 20
const LONGEST_WAIT_MS = 50

export function isConflict(error: unknown): boolean {
  if (error instanceof TransactionConflictError) return true
  const code = codeOf(error)
  return code === '40001' || code === '40P01'
}

/**
 * Sends one statement again until it is no longer given up. Inside a transaction of the caller there is no again: after
 * the first conflict Postgres refuses whatever comes (25P02), and that is how we know.
 */
export async function settlingConflicts<T>(send: () => Promise<T>): Promise<T> {
  let conflict: unknown
  for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
    try {
      return await send()
    } catch (error) {
      if (isConflict(error)) conflict = error
      else if (conflict === undefined || codeOf(error) !== '25P02') throw error
      else break
    }
    await waitAfterConflict(attempt)
  }
  throw new TransactionConflictError({ cause: conflict })
}

/** Nothing at first; then longer and longer, and never the same for two. */
export function waitAfterConflict(attempt: number): Promise<void> {
  return sleep(Math.random() * Math.min(LONGEST_WAIT_MS, 2 ** (attempt - 1)))
}

function codeOf(error: unknown): unknown {
  return (error as { code?: unknown } | null | undefined)?.code
}
