// A handler that ends its job inside a transaction of its own.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Lane } from '../../src/db/lane.ts'
import { Fatal, type Job, kind, LeaseLostError, withTransaction } from '../../src/index.ts'
import { sweep } from '../../src/jobs/housekeeping.ts'
import type { TestDatabase } from '../support/database.ts'
import { gate } from '../support/gate.ts'
import { findJobRow, jobRow } from '../support/queue.ts'
import { until } from '../support/until.ts'
import { count, doing, next, type Scene, statements } from '../support/worker.ts'

test('job.complete(tx) that commits has ended the job, with its result', async (t) => {
  const { busy, add, db } = await doing(t, (job, { db }) =>
    withTransaction(db.pool, async (tx) => {
      await tx.query('create table effect (n int)')
      await job.complete(tx, { by: 'tx' })
    }).then(() => 'not this'),
  )
  const completed = next(busy, 'completed')
  const jobId = await add()
  await completed
  assert.deepEqual((await jobRow(db, jobId)).result, { by: 'tx' })
  assert.equal(await count(db, 'from effect'), 0)
  await until('the claim is closed', async () => (await count(db, 'from leasehold.claim')) === 0)
})

test('job.complete(tx) that commits has ended the job, also when the handler throws afterwards', async (t) => {
  const { busy, add, db } = await doing(t, async (job, { db }) => {
    await withTransaction(db.pool, (tx) => job.complete(tx, 1))
    throw new Fatal('and yet')
  })
  const completed = next(busy, 'completed')
  const jobId = await add()
  await completed
  assert.equal((await jobRow(db, jobId)).status, 'completed')
  assert.equal(busy.tally.deadLetters, 0)
})

for (const [what, ask] of [
  ['assertLease', (job: Job<number>, db: TestDatabase) => withTransaction(db.pool, (tx) => job.assertLease(tx))],
  ['progress', (job: Job<number>) => job.progress('more')],
  ['complete', (job: Job<number>, db: TestDatabase) => withTransaction(db.pool, (tx) => job.complete(tx, 2))],
] as const) {
  test(`job.complete(tx) that commits has ended the job, also when ${what} then throws LeaseLostError`, async (t) => {
    const { busy, add, db } = await doing(t, async (job, { db }) => {
      await withTransaction(db.pool, (tx) => job.complete(tx, 1))
      await ask(job, db)
    })
    const ended = Promise.race([next(busy, 'completed'), next(busy, 'refused')])
    const jobId = await add()
    await ended
    assert.deepEqual([busy.tally.completed, busy.tally.refused], [1, 0])
    assert.equal((await jobRow(db, jobId)).result, 1)
  })
}

test('job.complete(tx) of a job that is not kept leaves no trace, and is completed', async (t) => {
  const complete: Parameters<typeof doing>[1] = (job, { db }) => withTransaction(db.pool, (tx) => job.complete(tx))
  const { busy, add, db } = await doing(t, complete, { kind: { keep: false } })
  const completed = next(busy, 'completed')
  const jobId = await add()
  assert.equal((await completed).jobId, jobId)
  assert.equal(await findJobRow(db, jobId), undefined)
})

test('job.complete(tx) that was rolled back is a failure, also when the handler returns normally', async (t) => {
  const { busy, add, db } = await doing(t, async (job, { db }) => {
    const tx = await db.connect()
    await tx.query('begin')
    await job.complete(tx, 'never')
    await tx.query('rollback')
    return 'as if nothing had happened'
  })
  const retrying = next(busy, 'retrying')
  const jobId = await add()
  const { code, message } = (await retrying).error as { code: string; message: string }
  assert.equal(code, 'ROLLED_BACK')
  assert.match(message, /called job\.complete\(tx\) and returned, but that transaction did not commit/)
  const { status, attempts, last_error } = await jobRow(db, jobId)
  assert.deepEqual([status, attempts, (last_error as { code: string }).code], ['pending', 1, 'ROLLED_BACK'])
})

test('job.complete(tx) whose commit comes after the handler has returned still counts', async (t) => {
  const returned = gate()
  const commits: (() => Promise<unknown>)[] = []
  const { busy, add, db } = await doing(t, async (job, { db }) => {
    const tx = await db.connect()
    await tx.query('begin')
    await job.complete(tx, 'late')
    commits.push(() => tx.query('commit'))
    returned.open()
  })
  const names = statements(t)
  const completed = next(busy, 'completed')
  const jobId = await add()
  await returned.opened
  // The worker has looked, found the row locked, and asks again.
  await until('the outcome was tried', () => names.filter((name) => name === 'job.settle').length >= 3)
  assert.equal((await jobRow(db, jobId)).status, 'processing')
  await commits[0]!()
  await completed
  const { status, result } = await jobRow(db, jobId)
  assert.deepEqual([status, result, busy.tally.retrying], ['completed', 'late', 0])
})

/** Another worker claims the job by hand while its handler runs, after the lease has expired. */
async function takeOver({ db, lh }: Scene) {
  await db.clock.advance('1 hour')
  await sweep(new Lane(db.pool))
  return (await lh.claim(kind<number>('task'), { lease: '2h' }))[0]!
}

test('a handler that drops LeaseLostError is refused: another worker has the job', async (t) => {
  const heirs: Awaited<ReturnType<typeof takeOver>>[] = []
  const errors: unknown[] = []
  const { busy, add, db } = await doing(t, async (job, setting) => {
    heirs.push(await takeOver(setting))
    await withTransaction(setting.db.pool, (tx) => job.complete(tx, 'stale')).catch((error) => errors.push(error))
    await job.progress('stale').catch((error) => errors.push(error))
    return 'stale'
  })
  const refused = next(busy, 'refused')
  const jobId = await add()
  assert.equal((await refused).generation, 1)
  assert.ok(errors.length === 2 && errors.every((error) => error instanceof LeaseLostError))
  await heirs[0]!.complete('fresh')
  const { status, result, progress } = await jobRow(db, jobId)
  assert.deepEqual([status, result, progress, busy.tally.refused], ['completed', 'fresh', null, 1])
})
