/**
 * Enqueues jobs, or none of them if one's key belongs to a job with another input.
 *
 * Which keys were taken is known only after the statement that stores the others: it waits for transactions that insert the same
 * key, and the job they belong to is read in a new snapshot. One job needs nothing else, as nothing was stored if its key was
 * taken. Several go in a transaction of their own, or below a savepoint of the caller's, and are rolled back on a conflict. A
 * worker never sees them then.
 *
 * A large call without keys is sent in parts, in a transaction of its own: this process encodes a part while Postgres stores the one
 * before. With keys it is not: one statement locks all of them in one order, so that two calls cannot deadlock.
 */
import { setImmediate } from 'node:timers/promises'
import type { Pool } from 'pg'
import { IdempotencyConflictError, type KeyConflict } from '../core/errors.ts'
import type { Lane } from '../db/lane.ts'
import { undoingFailure } from '../db/savepoint.ts'
import { withTransaction } from '../db/transaction.ts'
import type { Tx } from '../db/tx.ts'
import { type Conflicting, checkCount, type Enqueued, encodeAll, enqueue, type NewJob, store } from './enqueue.ts'

const PART = 1_250

export async function enqueueAllOrNone(
  lane: Lane,
  pool: Pool,
  tx: Tx | undefined,
  jobs: readonly NewJob[],
): Promise<Enqueued[]> {
  const inTransaction = async (own: Lane) => {
    const answers = await enqueue(own, jobs)
    const conflicts: KeyConflict[] = []
    answers.forEach(({ jobId, outcome }, index) => {
      if (outcome === 'conflict') conflicts.push({ index, idempotencyKey: jobs[index]!.idempotencyKey!, jobId })
    })
    if (conflicts.length > 0) throw new IdempotencyConflictError(conflicts)
    return answers as Enqueued[]
  }
  const isAlone = jobs.length <= 1 || jobs.every(({ idempotencyKey }) => idempotencyKey === undefined)
  if (tx !== undefined) {
    const within = lane.within(tx)
    return isAlone ? inTransaction(within) : undoingFailure(within, () => inTransaction(within))
  }
  if (isAlone && jobs.length > PART && jobs.every(({ partitionKey }) => partitionKey === undefined)) {
    checkCount(jobs)
    return withTransaction(pool, (own) => inParts(lane.within(own), jobs))
  }
  return isAlone ? inTransaction(lane) : withTransaction(pool, (own) => inTransaction(lane.within(own)))
}

/** Throws if one of them cannot be stored, and then the transaction must be rolled back. */
async function inParts(lane: Lane, jobs: readonly NewJob[]): Promise<Enqueued[]> {
  const stored: (Enqueued | Conflicting)[] = []
  let storing: Promise<void> | undefined
  try {
    for (let from = 0; from < jobs.length; from += PART) {
      const part = encodeAll(jobs.slice(from, from + PART))
      await storing
      storing = store(lane, part).then((answers) => void stored.push(...answers))
      storing.catch(() => {}) // Until it is awaited.
      await setImmediate() // The part is on its way.
    }
    await storing
  } finally {
    await storing?.catch(() => {}) // The next part was refused: nothing may be under way when the transaction is rolled back.
  }
  return stored as Enqueued[]
}
