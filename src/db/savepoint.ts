import { InvalidOptionError } from '../core/errors.ts'
import type { Lane } from './lane.ts'
import { RELEASE_SAVEPOINT, ROLL_BACK_TO_SAVEPOINT, SAVEPOINT } from './savepoint.sql.ts'

/** Runs `work` in the caller's transaction, and undoes its changes, and only those, if it throws. */
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
    } catch {} // A lost connection or a ROLLBACK has ended the transaction and undone everything.
    throw error
  }
}

export function refuseWithoutTransaction(error: { code?: unknown }): never {
  const noTransaction = error.code === '25P01'
  throw noTransaction ? new InvalidOptionError('tx', 'no transaction is open on it', { cause: error }) : error
}
