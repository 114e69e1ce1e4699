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
import { PRODUCER_DEADLINE_MS } from '../db/pooled.ts'
import { undoingFailure } from '../db/savepoint.ts'
import { withTransactionOfOurs } from '../db/transaction.ts'
import type { Tx } from '../db/tx.ts'
import { checkCount, created, type Enqueued, enqueue, type NewJob, prepare, storeWithoutKeys } from './enqueue.ts'

/** The first is small, since Postgres stands idle until it comes. To encode a part takes a quarter of what it takes to store one of its size. */
const FIRST_PART = 300
const GROWTH = 3
/** Nothing else happens in this process while a part is encoded. */
const LARGEST_PART = 1_300

export async function enqueueAllOrNone(
  lane: Lane,
  pool: Pool,
  tx: Tx | undefined,
  jobs: readonly NewJob[],
): Promise<Enqueued[]> {
  const ofOurs = (work: (own: Lane) => Promise<Enqueued[]>) =>
    withTransactionOfOurs(pool, PRODUCER_DEADLINE_MS, (tx) => work(lane.within(tx)))
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
  if (isAlone && jobs.length > 2 * FIRST_PART && jobs.every(({ partitionKey }) => partitionKey === undefined)) {
    checkCount(jobs)
    return ofOurs((own) => inParts(own, jobs))
  }
  return isAlone ? inTransaction(lane) : ofOurs(inTransaction)
}

/** Throws if one of them cannot be stored, and then the transaction must be rolled back. */
async function inParts(lane: Lane, jobs: readonly NewJob[]): Promise<Enqueued[]> {
  const stored: string[] = []
  let storing: Promise<string[]> | undefined
  try {
    for (
      let from = 0, size = FIRST_PART;
      from < jobs.length;
      from += size, size = Math.min(GROWTH * size, LARGEST_PART)
    ) {
      const part = prepare(jobs.slice(from, from + size))
      const before = await storing
      storing = storeWithoutKeys(lane, part)
      storing.catch(() => {}) // Until it is awaited.
      await setImmediate() // The part is on its way.
      if (before !== undefined) stored.push(...before)
    }
    stored.push(...(await storing)!)
  } finally {
    await storing?.catch(() => {}) // The next part was refused: nothing may be under way when the transaction is rolled back.
  }
  return stored.map(created)
}
