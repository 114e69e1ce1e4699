// leasehold.enqueue() in SQL, for queues that are ordered.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type pg from 'pg'
import { waitUntilBlocked } from '../support/database.ts'
import { broken, claimRun, enqueueInKey, idsOf, nothingLeft, orderedQueue } from '../support/order.ts'
import { completeAll, jobRow, newWorker, session } from '../support/queue.ts'
import { codeOf } from '../support/worker.ts'

type Client = Pick<pg.Client, 'query'>

const worker = newWorker()

async function bySql(client: Client, options: object, payload = 1): Promise<{ job_id: string; outcome: string }> {
  const values = ['mail', JSON.stringify(payload), JSON.stringify(options)]
  return (await client.query('select job_id, outcome from leasehold.enqueue($1, $2, $3)', values)).rows[0]
}

test('jobs of SQL producers and of this library share the order of a key', async (t) => {
  const { db, lane } = await orderedQueue(t)
  const first = await bySql(db.pool, { partition_key: 'k', priority: 9, metadata: { a: null } })
  const [second] = await enqueueInKey(lane, 1)
  const third = await bySql(db.pool, { partition_key: 'k', priority: 0, max_attempts: 2 })
  assert.deepEqual([first.outcome, third.outcome], ['created', 'created'])
  const run = await claimRun(lane, { worker })
  assert.deepEqual(idsOf(run), [first.job_id, second, third.job_id])
  assert.deepEqual(
    run.map(({ priority, maxAttempts, metadata }) => [priority, maxAttempts, metadata]),
    [
      [9, 5, '{"a": null}'],
      [5, 5, null],
      [0, 2, null],
    ],
  )
  await completeAll(lane, worker, run)
  await nothingLeft(db)
})

test('a SQL producer without a partition key is refused in an ordered queue', async (t) => {
  const { db } = await orderedQueue(t)
  assert.equal(await codeOf(() => bySql(db.pool, {})), 'LH002')
  assert.equal(await codeOf(() => bySql(db.pool, { partition_key: '' })), '22023')
  assert.equal(await codeOf(() => bySql(db.pool, { partition_key: 'x'.repeat(1_001) })), '22023')
  await nothingLeft(db)
})

test('a SQL producer waits for an open enqueue of the same key, and comes after it', async (t) => {
  const { db, lane } = await orderedQueue(t)
  const [first, second] = [await session(db), await session(db)]
  await first.client.query('begin')
  const before = await bySql(first.client, { partition_key: 'k' })
  const after = bySql(second.client, { partition_key: 'k' })
  await waitUntilBlocked(await db.connect(), second.pid)
  await first.client.query('commit')
  const { job_id } = await after
  assert.deepEqual(idsOf(await claimRun(lane)), [before.job_id, job_id])
})

test('an idempotency key of a SQL producer stores one job of an ordered queue', async (t) => {
  const { db, lane } = await orderedQueue(t)
  const options = { partition_key: 'k', idempotency_key: 'i', delay: '1 hour', keep_key_for: '2 days' }
  const created = await bySql(db.pool, options)
  assert.deepEqual(await bySql(db.pool, options), { job_id: created.job_id, outcome: 'existing' })
  assert.equal(await codeOf(() => bySql(db.pool, options, 2)), 'LH001')
  const conflict = await bySql(db.pool, { ...options, on_conflict: 'return' }, 2)
  assert.deepEqual(conflict, { job_id: created.job_id, outcome: 'conflict' })
  assert.equal((await jobRow(db, created.job_id as never)).label, 'scheduled')
  const { rows } = await db.pool.query('select keep_for::text from leasehold.idempotency_key')
  assert.deepEqual(rows, [{ keep_for: '48:00:00' }])
  assert.deepEqual(await claimRun(lane), [])
  assert.deepEqual(await broken(db), [])
})
