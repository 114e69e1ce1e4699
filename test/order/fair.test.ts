// Fairness among the keys of a queue that is not ordered.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Lane } from '../../src/db/lane.ts'
import { handle, kind, queue } from '../../src/index.ts'
import { releaseClaim } from '../../src/jobs/claim.ts'
import { enqueue } from '../../src/jobs/enqueue.ts'
import { freshDatabase, type TestDatabase } from '../support/database.ts'
import { claimNext, completeAll, enqueueMany, enqueueOne, newWorker, session } from '../support/queue.ts'
import { until } from '../support/until.ts'
import { scene } from '../support/worker.ts'

async function fairQueue(t: Parameters<typeof freshDatabase>[0]): Promise<{ db: TestDatabase; lane: Lane }> {
  const db = await freshDatabase(t)
  await db.pool.query(`insert into leasehold.queue (name, fair) values ('mail', true)`)
  return { db, lane: new Lane(db.pool) }
}

const keysOf = (jobs: readonly { readonly partitionKey: string | null }[]) => jobs.map((job) => job.partitionKey)

test('a key with many jobs in front does not delay another', async (t) => {
  const { lane } = await fairQueue(t)
  await enqueueMany(lane, 3_000, { partitionKey: 'flood' })
  await enqueueOne(lane, { partitionKey: 'other' })
  const first = await claimNext(lane, { limit: 10 })
  assert.ok(first.length >= 6)
  assert.equal(keysOf(first).filter((key) => key === 'other').length, 1)
})

test('keys share a claim, and what one leaves free another may use', async (t) => {
  const { lane } = await fairQueue(t)
  await enqueueMany(lane, 100, { partitionKey: 'a' })
  await enqueueMany(lane, 100, { partitionKey: 'b' })
  const claimed = keysOf(await claimNext(lane, { limit: 20 }))
  assert.deepEqual([claimed.filter((key) => key === 'a').length, claimed.filter((key) => key === 'b').length], [10, 10])
})

test('jobs of one key of a fair queue run at the same time', async (t) => {
  const { db, lh, worker } = await scene(t)
  const task = kind<number>('task')
  await lh.configure([queue('task', { fair: true })])
  let [now, most] = [0, 0]
  const busy = worker(
    [
      handle(task, async () => {
        most = Math.max(most, ++now)
        await new Promise((resolve) => setImmediate(resolve))
        now--
      }),
    ],
    { concurrency: 8 },
  )
  const jobs = Array.from({ length: 2_000 }, (_, input) => ({
    input,
    partitionKey: input % 10 === 0 ? `k${input}` : 'flood',
  }))
  await lh.enqueueMany(task, jobs)
  await until('all are completed', () => busy.tally.completed === 2_000)
  assert.ok(most > 1)
  const { rows } = await db.pool.query('select count(*)::int as keys from leasehold.order_key')
  assert.equal(rows[0].keys, 0)
})

test('a job that is enqueued while a claim takes the last of its key is let in after its commit', async (t) => {
  const { db, lane } = await fairQueue(t)
  await enqueueOne(lane, { partitionKey: 'k' })
  const producer = await session(db)
  await producer.client.query('begin')
  await enqueue(producer.lane, [{ kind: 'mail', input: 2, partitionKey: 'k' }])
  assert.equal((await claimNext(lane, { limit: 5 })).length, 1)
  await producer.client.query('commit')
  assert.equal((await claimNext(lane, { limit: 5 })).length, 1)
})

test('a claim of a fair queue that is released whole can be claimed again', async (t) => {
  const { lane } = await fairQueue(t)
  await enqueueMany(lane, 20, { partitionKey: 'k' })
  const worker = newWorker()
  const lost = await claimNext(lane, { limit: 5, worker })
  assert.equal((await releaseClaim(lane, worker, lost[0]!.claimId)).length, 5)
  const taken: string[] = []
  for (let claimed = await claimNext(lane, { limit: 7, worker }); claimed.length > 0; ) {
    taken.push(...claimed.map(({ jobId }) => jobId))
    await completeAll(lane, worker, claimed)
    claimed = await claimNext(lane, { limit: 7, worker })
  }
  assert.equal(new Set(taken).size, 20)
})

test('a job that was released while its key was empty does not hold up the next enqueue', async (t) => {
  const { db, lane } = await fairQueue(t)
  const worker = newWorker()
  await enqueueOne(lane, { partitionKey: 'k' })
  const [held] = await claimNext(lane, { limit: 5, worker })
  assert.equal((await db.pool.query('select from leasehold.order_key')).rowCount, 0)
  await releaseClaim(lane, worker, held!.claimId)
  const producer = await session(db)
  await producer.client.query('begin')
  await enqueue(producer.lane, [{ kind: 'mail', input: 2, partitionKey: 'k' }])
  assert.equal((await claimNext(lane, { limit: 5 })).length, 1)
  await producer.client.query('commit')
  assert.equal((await claimNext(lane, { limit: 5 })).length, 1)
})

test('jobs without a key take no part', async (t) => {
  const { lane } = await fairQueue(t)
  await enqueueMany(lane, 5)
  assert.equal((await claimNext(lane, { limit: 10 })).length, 5)
})
