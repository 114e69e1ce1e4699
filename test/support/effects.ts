// Jobs claimed by hand, one attempt after the other, for tests of effects that happen once.
import assert from 'node:assert/strict'
import { Lane } from '../../src/db/lane.ts'
import { kind, type Leasehold, type ManualJob } from '../../src/index.ts'
import { sweep } from '../../src/jobs/housekeeping.ts'
import type { TestDatabase } from './database.ts'
import type { Scene } from './worker.ts'

export const task = kind<number>('task')

/** A new job, claimed. */
export async function claimed(lh: Leasehold): Promise<ManualJob<number>> {
  await lh.enqueue(task, 1)
  return again(lh)
}

/** The next attempt of the one job that waits. */
export async function again(lh: Leasehold): Promise<ManualJob<number>> {
  const [job] = await lh.claim(task)
  assert.ok(job, 'there is a job to claim')
  return job
}

/** Its lease expires, and another worker claims the job. */
export async function takenOver({ db, lh }: Pick<Scene, 'db' | 'lh'>): Promise<ManualJob<number>> {
  await returned(db)
  return again(lh)
}

/** Its lease has expired, and the sweep has reclaimed the job. */
export async function returned(db: TestDatabase): Promise<void> {
  await db.clock.advance('31s')
  assert.equal((await sweep(new Lane(db.pool))).jobs.length, 1)
}

/** Each effect as one line: `charge done by 1`. */
export async function ledger(lh: Leasehold, job: { readonly id: string }): Promise<string[]> {
  return (await lh.effects(job.id)).map(({ name, state, generation }) => `${name} ${state} by ${generation}`)
}

/** The error with which the promise rejects. */
export async function failureOf(
  promise: Promise<unknown>,
): Promise<Error & { readonly code?: string; readonly severity?: string }> {
  const nothing = new Error('nothing was thrown')
  const error = await promise.then(
    () => nothing,
    (thrown) => thrown,
  )
  assert.notEqual(error, nothing, 'it throws')
  return error
}
