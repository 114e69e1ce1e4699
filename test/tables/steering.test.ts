// The errors by which an effect steers its row: Fatal, RetryAfter, Snooze, Cancel.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { Cancel, Snooze } from '../../src/index.ts'
import { freshDatabase, type TestDatabase } from '../support/database.ts'
import { createSummaries, summaries, summary } from './summaries.ts'

async function withRows(t: TestContext, n: number): Promise<TestDatabase> {
  const db = await freshDatabase(t)
  await createSummaries(db, n)
  return db
}

test('Snooze releases the row with its delay, and spends no attempt', async (t) => {
  const db = await withRows(t, 1)
  const worked = await summaries.work(db.pool, 1, () => Promise.reject(new Snooze('1h')))
  assert.deepEqual(worked, { outcome: 'released', delayMs: 3_600_000 })
  const { status, attempt_count, last_error } = await summary(db, 1)
  assert.deepEqual([status, attempt_count, last_error], ['pending', 0, null])
  assert.deepEqual(await summaries.work(db.pool, 1, async () => ({ result: 'later' })), { outcome: 'applied' })
})

test('recovery does not re-publish a snoozed row before its delay', async (t) => {
  const db = await withRows(t, 2)
  await summaries.work(db.pool, 1, () => Promise.reject(new Snooze('1h')))
  const claimed = await summaries.claim(db.pool, 2)
  assert.ok(claimed.outcome === 'applied')
  await summaries.release(db.pool, claimed.claim)
  const told: string[] = []
  const recovery = summaries.recovery({ publish: async (ids) => told.push(...ids), resendAfter: '30m' })
  const later = (minutes: number) =>
    db.pool.query(`update summary set sent_at = sent_at - $1 * interval '1 min'`, [minutes])
  await later(45)
  await recovery.run(db.pool)
  assert.deepEqual(told, ['2'])
  await db.pool.query(`update summary set status = 'completed' where id = 2`)
  await later(50)
  await recovery.run(db.pool)
  assert.deepEqual(told, ['2', '1'])
})

test('Snooze also counts in a process that stops', async (t) => {
  const db = await withRows(t, 1)
  const stopping = AbortSignal.abort()
  const worked = await summaries.work(db.pool, 1, () => Promise.reject(new Snooze('5s')), { stopping })
  assert.deepEqual(worked, { outcome: 'released', delayMs: 5_000 })
})

test('Cancel is recorded, and not retried', async (t) => {
  const db = await withRows(t, 1)
  const error = new Cancel('no longer wanted')
  const worked = await summaries.work(db.pool, 1, () => Promise.reject(error))
  assert.deepEqual(worked, { outcome: 'failed', error, givenUp: true })
  const { status, retry_at, last_error } = await summary(db, 1)
  assert.deepEqual([status, retry_at, last_error], ['error', null, 'Cancel: no longer wanted'])
})
