// What an ordered queue refuses, and when a queue may become one.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Lane } from '../../src/db/lane.ts'
import { Leasehold, queue } from '../../src/index.ts'
import { enqueue } from '../../src/jobs/enqueue.ts'
import {
  broken,
  claimRun,
  claimRuns,
  countRows,
  enqueueInKey,
  nothingLeft,
  orderedQueue,
  stopsIn,
} from '../support/order.ts'
import { completeAll, enqueueOne, newWorker, session } from '../support/queue.ts'
import { until } from '../support/until.ts'
import { codeOf, count, scene } from '../support/worker.ts'

const worker = newWorker()

test('bad input is refused: no key, an empty or overlong one, a kind that declares more than its queue is', async (t) => {
  const { db, lane } = await orderedQueue(t)
  const job = { kind: 'mail', input: 1 }
  await assert.rejects(enqueue(lane, [job]), { code: 'INVALID_OPTION', option: 'partitionKey' })
  await assert.rejects(enqueue(lane, [{ ...job, idempotencyKey: 'i' }]), { option: 'partitionKey' })
  await assert.rejects(enqueue(lane, [{ ...job, partitionKey: 'k' }, job]), { option: 'partitionKey' })
  for (const partitionKey of ['', 'x'.repeat(1_001)])
    await assert.rejects(enqueue(lane, [{ ...job, partitionKey }]), { code: 'INVALID_OPTION', option: 'partitionKey' })
  for (const more of [{}, { metadata: {} }, { idempotencyKey: 'i' }]) {
    const mistaken = { ...job, ...more, queue: 'plain', partitionKey: 'k', ordered: true }
    await assert.rejects(enqueue(lane, [mistaken]), { code: 'INVALID_OPTION', option: 'ordered' })
  }
  await nothingLeft(db)
  assert.equal(await countRows(db, 'idempotency_key'), 0)
  await enqueue(lane, [{ ...job, partitionKey: 'x'.repeat(1_000) }])
})

test('an enqueue that is open makes configure() refuse to order its queue', async (t) => {
  const { db, lh } = await scene(t)
  const producer = await session(db)
  await producer.client.query('begin')
  await enqueueOne(producer.lane, { queue: 'late' })
  let hasReturned = false
  const configured = codeOf(() => lh.configure([queue('late', { ordered: true })])).finally(() => {
    hasReturned = true
  })
  const waiting = "from pg_stat_activity where wait_event = 'relation' and datname = current_database()"
  await until('configure() waits', async () => hasReturned || (await count(db, waiting)) > 0)
  assert.equal(hasReturned, false, 'it waits for the open enqueue')
  await producer.client.query('commit')
  assert.equal(await configured, 'INVALID_OPTION')
  const { rows } = await db.pool.query("select from leasehold.queue where name = 'late' and ordered")
  assert.equal(rows.length, 0)
})

test('whether a queue is ordered changes while it is empty, and not before', async (t) => {
  const { db, lh } = await scene(t)
  const lane = new Lane(db.pool)
  const set = (ordered: boolean) => codeOf(() => lh.configure([queue('mail', { ordered })]))
  await enqueueOne(lane)
  assert.equal(await set(true), 'INVALID_OPTION', 'a job without a place')
  const [plain] = await claimRuns(lane, { worker })
  assert.equal(await set(true), 'INVALID_OPTION', 'it is processing')
  await completeAll(lane, worker, [plain!])
  assert.equal(await set(true), 'nothing was thrown')
  await enqueueInKey(lane, 2)
  assert.equal(await set(false), 'INVALID_OPTION')
  assert.equal(await set(true), 'nothing was thrown', 'it changes nothing')
  await completeAll(lane, worker, await claimRun(lane, { worker }))
  assert.equal(await set(false), 'nothing was thrown')
  await enqueueOne(lane)
})

test('a batch for a queue that becomes ordered while it is stored is stored in order', async (t) => {
  const { db, lane } = await orderedQueue(t)
  const lh = new Leasehold({ connectionString: db.url })
  t.after(() => lh.close())
  const producer = await stopsIn(db, 'enqueue_in_order', 'return query')
  const jobs = [
    { kind: 'mail', input: 1, partitionKey: 'k' },
    { kind: 'mail', queue: 'plain', input: 2, partitionKey: 'k' },
  ]
  const stored = enqueue(producer.lane, jobs)
  await producer.arrived()
  await lh.configure([queue('plain', { ordered: true })])
  await producer.open()
  assert.equal((await stored).length, 2)
  assert.equal(await countRows(db, 'job'), 2)
  assert.deepEqual(await broken(db), [])
  assert.equal((await claimRuns(lane, { queues: ['mail', 'plain'] })).length, 2)
})
