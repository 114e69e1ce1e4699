/**
 * Enqueues jobs, or none of them if one's key belongs to a job with another input.
 *
 * Which keys were taken is known only after the statement that stores the others: it waits for transactions that insert the same
 * key, and the job they belong to is read in a new snapshot. One job needs nothing else, as nothing was stored if its key was
 * taken. Several go in a transaction of their own, or below a savepoint of the caller's, and are rolled back on a conflict. A
 * worker never sees them then.
 */
import type { Pool } from 'pg'
import { IdempotencyConflictError, type KeyConflict } from '../core/errors.ts'
import type { Lane } from '../db/lane.ts'
import { undoingFailure } from '../db/savepoint.ts'
import { withTransaction } from '../db/transaction.ts'
import type { Tx } from '../db/tx.ts'
import { type Enqueued, enqueue, type NewJob } from './enqueue.ts'

export async function enqueueAllOrNone(
  lane: Lane,
  pool: Pool,
  tx: Tx | undefined,
  jobs: readonly NewJob[],
): Promise<Enqueued[]> {
  const store = async (own: Lane) => {
    const answers = await enqueue(own, jobs)
    const conflicts: KeyConflict[] = []
    answers.forEach(({ jobId, outcome }, index) => {
      if (outcome === 'conflict') conflicts.push({ index, idempotencyKey: jobs[index]!.idempotencyKey!, jobId })
    })
    if (conflicts.length > 0) throw new IdempotencyConflictError(conflicts)
    return answers as Enqueued[]
  }
  const isAlone = jobs.length <= 1 || jobs.every(({ idempotencyKey }) => idempotencyKey === undefined)
  if (tx === undefined) return isAlone ? store(lane) : withTransaction(pool, (own) => store(lane.within(own)))
  const within = lane.within(tx)
  return isAlone ? store(within) : undoingFailure(within, () => store(within))
}
