import { LeaseLostError } from '../core/errors.ts'
import { settlingConflicts } from '../db/conflict.ts'
import type { Lane } from '../db/lane.ts'
import type { Lease } from '../queue/job.ts'
import { beInATransaction, checkGeneration } from '../queue/outcome.ts'
import { checkId } from '../queue/parameters.ts'
import { ASSERT_LEASE } from './lease.sql.ts'

/**
 * Holds the lease until the caller's transaction ends: nobody else can have the job before that (decisions/0021). Throws
 * LeaseLostError when somebody has it already. After a savepoint it holds until that is rolled back to, if it is.
 */
export async function assertLease(tx: Lane, lease: Lease): Promise<void> {
  checkId('jobId', lease.jobId)
  checkGeneration(lease.generation)
  await beInATransaction(tx)
  await lockLease(tx, lease)
}

/** The same for who asks for a transaction himself. */
export async function lockLease(tx: Lane, lease: Lease): Promise<void> {
  const values = [lease.jobId, lease.generation]
  const rows = await settlingConflicts(tx.standsAlone, () => tx.run(ASSERT_LEASE, values))
  if (rows.length === 0) throw new LeaseLostError(lease)
}
