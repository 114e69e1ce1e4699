/**
 * Conflicts that Postgres resolves by aborting one of two transactions: a serialization failure (40001, under REPEATABLE
 * READ and SERIALIZABLE) or a deadlock (40P01). Nothing was changed, so the aborted one may begin again.
 */
import { TransactionConflictError } from '../core/errors.ts'
import { sleep } from '../core/timer.ts'

/** Of a transaction of our own. */
export const ATTEMPTS = 20
const LONGEST_WAIT_MS = 50

export function isConflict(error: unknown): boolean {
  if (error instanceof TransactionConflictError) return true
  const code = codeOf(error)
  return code === '40001' || code === '40P01'
}

/**
 * Sends a statement, and repeats it after a conflict if it is a transaction of its own. In the caller's transaction it is
 * not repeated: that transaction is aborted, the caller may have rolled back meanwhile, and the statement would then run
 * alone, or in another transaction on the same connection.
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

/** Nothing at first, then longer each time, and random, so that two sessions do not collide again. */
export function waitAfterConflict(attempt: number): Promise<void> {
  return sleep(Math.random() * Math.min(LONGEST_WAIT_MS, 2 ** (attempt - 1)))
}

function codeOf(error: unknown): unknown {
  return (error as { code?: unknown } | null | undefined)?.code
}
