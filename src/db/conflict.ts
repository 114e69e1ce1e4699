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
 * Sends a statement, again if it is given up and stands for itself. Not in a transaction of the caller's, which is over
 * then: by the time we sent it again the caller may have rolled back, and it would be carried out by itself, or in
 * somebody else's transaction on the same connection.
 */
export async function settlingConflicts<T>(standsAlone: boolean, send: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await send()
    } catch (error) {
      if (!isConflict(error)) throw error
      if (!standsAlone || attempt === ATTEMPTS) throw new TransactionConflictError({ cause: error })
    }
    await waitAfterConflict(attempt)
  }
}

/** Nothing at first; then longer and longer, and never the same for two. */
export function waitAfterConflict(attempt: number): Promise<void> {
  return sleep(Math.random() * Math.min(LONGEST_WAIT_MS, 2 ** (attempt - 1)))
}

function codeOf(error: unknown): unknown {
  return (error as { code?: unknown } | null | undefined)?.code
}
