// An enqueue into a queue on the ring: by one statement, into the lines of its buckets.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { bucketOf } from '../../src/core/bucket.ts'
import { Lane, type Queryable } from '../../src/db/lane.ts'
import { queue, withTransaction } from '../../src/index.ts'
import { storeConfiguration } from '../../src/jobs/configuration.ts'
import { enqueue } from '../../src/jobs/enqueue.ts'
import { freshDatabase, type TestDatabase } from '../support/database.ts'
import { stopsIn } from '../support/order.ts'

const KEYS = ['order:9182', 'user:42', 'order:9182', 'a\'b"c\\d', 'ß🦊']
const alike = KEYS.map((partitionKey, n) => ({ kind: 'touch', input: { n }, partitionKey }))

function counted(db: TestDatabase): { lane: Lane; statements: () => string[] } {
  let names: string[] = []
  const query: Queryable['query'] = (config) => {
    names.push(/^-- (\S+)/.exec(config.text)![1]!)
    return db.pool.query(config)
  }
  const statements = () => {
    const sent = names
    names = []
    return sent
  }
  return { lane: new Lane({ query }), statements }
}

async function rows(db: TestDatabase) {
  const { rows } = await db.pool.query(
    `select partition_key as key, line, key_seq, blocked, payload from leasehold.job order by id`,
  )
  return rows
}

test('jobs of a queue on the ring lie in the lines of their buckets', async (t) => {
  const db = await freshDatabase(t)
  const lane = new Lane(db.pool)
  await storeConfiguration(lane, [queue('touch', { ring: true })], {})
  await enqueue(lane, alike)
  const expected = KEYS.map((key, n) => ({
    key,
    line: 1 + bucketOf(key),
    key_seq: null,
    blocked: false,
    payload: { n },
  }))
  const stored = await rows(db)
  assert.deepEqual(
    stored.toSorted((one, other) => one.payload.n - other.payload.n),
    expected,
  )
  // Side by side in the table, so that the worker that owns a bucket reads few pages.
  const lines = stored.map(({ line }) => line)
  assert.deepEqual(
    lines,
    lines.toSorted((one, other) => one - other),
  )
})

test('the ids of a bulk call are returned in the order of its jobs, and those of a key rise', async (t) => {
  const db = await freshDatabase(t)
  const lane = new Lane(db.pool)
  await storeConfiguration(lane, [queue('touch', { ring: true })], {})
  const jobs = Array.from({ length: 200 }, (_, n) => ({ kind: 'touch', input: { n }, partitionKey: `key ${n % 7}` }))
  const ids = (await enqueue(lane, jobs)).map(({ jobId }) => jobId)
  const { rows } = await db.pool.query('select id, payload from leasehold.job')
  const inputs = new Map(rows.map(({ id, payload }) => [id, payload]))
  assert.deepEqual(
    ids.map((id) => inputs.get(id)),
    jobs.map(({ input }) => input),
  )
  for (let key = 0; key < 7; key++) {
    const ofKey = ids.filter((_, n) => n % 7 === key).map(Number)
    assert.deepEqual(
      ofKey,
      ofKey.toSorted((one, other) => one - other),
    )
  }
})

test('a producer that has learned that a queue is on the ring sends one statement', async (t) => {
  const db = await freshDatabase(t)
  const { lane, statements } = counted(db)
  await storeConfiguration(new Lane(db.pool), [queue('touch', { ring: true })], {})
  await enqueue(lane, alike)
  assert.deepEqual(statements(), ['job.enqueue', 'job.enqueue_alike_in_order'])
  await enqueue(lane, alike)
  await withTransaction(db.pool, (tx) => enqueue(lane.within(tx), alike))
  assert.deepEqual(statements(), ['job.enqueue_alike_in_order'])
  await enqueue(lane, [{ ...alike[0]!, idempotencyKey: 'once' }])
  assert.deepEqual(statements(), ['job.enqueue_in_order'])
  // Another queue is not taken for one.
  await enqueue(lane, [{ kind: 'other', input: 1 }])
  assert.deepEqual(statements(), ['job.enqueue_alike'])
  assert.equal((await rows(db)).length, 3 * KEYS.length + 2)
})

test('a queue that is plain again takes the jobs of a producer that does not know', async (t) => {
  const db = await freshDatabase(t)
  const { lane } = counted(db)
  await storeConfiguration(lane, [queue('touch', { ordered: true })], {})
  await enqueue(lane, alike.slice(0, 1))
  await db.pool.query(`delete from leasehold.queue`)
  await enqueue(lane, alike.slice(1, 2))
  assert.deepEqual(
    (await rows(db)).map(({ key, line, key_seq: place }) => ({ key, line, hasPlace: place !== null })),
    [
      { key: KEYS[0], line: 0, hasPlace: true },
      { key: KEYS[1], line: 0, hasPlace: false },
    ],
  )
})

test('a kind that is ordered is refused by a queue that is only on the ring', async (t) => {
  const db = await freshDatabase(t)
  const lane = new Lane(db.pool)
  await storeConfiguration(lane, [queue('touch', { ring: true })], {})
  const jobs = alike.map((job) => ({ ...job, ordered: true }))
  await assert.rejects(enqueue(lane, jobs), { code: 'INVALID_OPTION', option: 'ordered' })
  assert.deepEqual(await rows(db), [])
})

test('a queue that becomes ordered during an enqueue has all jobs in order', async (t) => {
  const db = await freshDatabase(t)
  const lane = new Lane(db.pool)
  await storeConfiguration(lane, [queue('touch', { ring: true })], {})
  const producer = await stopsIn(db, 'enqueue_alike_in_order', 'if not is_ordered then')
  const stored = enqueue(producer.lane, alike)
  await producer.arrived()
  await storeConfiguration(lane, [queue('touch', { ring: true, ordered: true })], {})
  await producer.open()
  await stored
  const places = (await rows(db)).map(({ key_seq: place }) => place !== null)
  assert.deepEqual(
    places,
    KEYS.map(() => true),
  )
})
