import { InvalidOptionError } from '../core/errors.ts'
import type { Lane } from './lane.ts'
import { RELEASE_SAVEPOINT, ROLL_BACK_TO_SAVEPOINT, SAVEPOINT } from './savepoint.sql.ts'

/** Runs `work` in the caller's transaction: what it did there is undone if it throws, and nothing else. */
export async function undoingFailure<T>(tx: Lane, work: () => Promise<T>): Promise<T> {
  await tx.run(SAVEPOINT, []).catch(refuseWithoutTransaction)
  try {
    const result = await work()
    await tx.run(RELEASE_SAVEPOINT, [])
    return result
  } catch (error) {
    try {
      await tx.run(ROLL_BACK_TO_SAVEPOINT, [])
      await tx.run(RELEASE_SAVEPOINT, [])
    } catch {} // The transaction is over, by a lost connection or a ROLLBACK of the caller's, and with it all that was done.
    throw error
  }
}

export function refuseWithoutTransaction(error: { code?: unknown }): never {
  const noTransaction = error.code === '25P01'
  throw noTransaction ? new InvalidOptionError('tx', 'no transaction is open on it', { cause: error }) : error
}
