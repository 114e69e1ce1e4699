import { LeaseLostError } from '../core/errors.ts'
import { settlingConflicts } from '../db/conflict.ts'
import type { Lane } from '../db/lane.ts'
import { beInATransaction } from '../jobs/completion.ts'
import type { Lease } from '../jobs/job.ts'
import { fence } from '../jobs/outcome.ts'
import { ASSERT_LEASE } from './lease.sql.ts'

/**
 * Holds the lease until the caller's transaction ends: no other worker can claim the job before that (decisions/0021).
 * Throws LeaseLostError if the lease is gone. After a savepoint it holds until a rollback to that savepoint.
 */
export async function assertLease(tx: Lane, lease: Lease): Promise<void> {
  fence(lease)
  await beInATransaction(tx)
  await lockLease(tx, lease)
}

/** For callers that have checked that a transaction is open. */
export async function lockLease(tx: Lane, lease: Lease): Promise<void> {
  const rows = await settlingConflicts(tx.standsAlone, () => tx.run(ASSERT_LEASE, fence(lease)))
  if (rows.length === 0) throw new LeaseLostError(lease)
}
