// Races in a key, forced: one transaction is stopped where it has looked and not yet acted, others commit, it goes on.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { complete } from '../../src/jobs/completion.ts'
import { enqueue } from '../../src/jobs/enqueue.ts'
import { SWEEP } from '../../src/jobs/housekeeping.sql.ts'
import { cancel, redrive } from '../../src/jobs/operator.ts'
import { settle } from '../../src/jobs/outcome.ts'
import { waitUntilBlocked } from '../support/database.ts'
import { pause } from '../support/interleave.ts'
import {
  broken,
  bury,
  claimRun,
  claimRuns,
  enqueueInKey,
  idsOf,
  nothingLeft,
  orderedQueue,
  stopsIn,
} from '../support/order.ts'
import { completeAll, jobRow, newWorker, session } from '../support/queue.ts'

const worker = newWorker()

test('a job whose predecessor completes while the sweep looks at both is not stuck', async (t) => {
  const { db, lane } = await orderedQueue(t)
  await enqueueInKey(lane, 2)
  const [first, second] = await claimRun(lane, { worker })
  await db.clock.advance('31 s')
  const late = await pause(db, SWEEP, [100, 20_000, false])
  await complete(lane, worker, [first!])
  await late.resume()
  assert.deepEqual(await broken(db), [])
  assert.equal((await jobRow(db, second!.jobId)).status, 'pending')
})

test('a cancellation that looked before a redrive lets no second job in', async (t) => {
  const { db, lane } = await orderedQueue(t)
  const [first, second] = await enqueueInKey(lane, 3)
  const [head] = await claimRun(lane, { worker, runLength: 1 })
  await bury(lane, worker, head!)
  const canceller = await stopsIn(db, 'advance', 'with moved as (')
  const cancelled = cancel(canceller.lane, [second!])
  await canceller.arrived()
  assert.deepEqual(await redrive(lane, [first!]), [first])
  await canceller.open()
  await cancelled
  assert.deepEqual(await broken(db), [])
  assert.deepEqual(idsOf(await claimRuns(lane)), [first])
})

test('a run ends before a dead letter that blocks the key', async (t) => {
  const { db, lane } = await orderedQueue(t)
  const [first, second, third] = await enqueueInKey(lane, 3)
  const run = await claimRun(lane, { worker })
  // The first job is locked while the outcome of the second is recorded.
  const other = await session(db)
  await other.client.query('begin')
  await other.client.query('select from leasehold.job where id = $1 for update', [first])
  await bury(lane, worker, run[1]!)
  await other.client.query('rollback')
  await settle(lane, worker, [{ ...run[0]!, verb: 'release' }])
  assert.deepEqual(idsOf(await claimRun(lane, { worker })), [first])
  assert.deepEqual(await broken(db), [])
  assert.deepEqual([(await jobRow(db, second!)).status, (await jobRow(db, third!)).label], ['dead_letter', 'blocked'])
})

test('a job behind, whose cancellation was requested, is cancelled when the rest of its run is returned', async (t) => {
  const { db, lane } = await orderedQueue(t)
  const [first, second, third] = await enqueueInKey(lane, 3)
  const [head] = await claimRun(lane, { worker })
  assert.equal((await cancel(lane, [second!], { reason: 'why' }))[0]?.outcome, 'requested')
  await settle(lane, worker, [{ ...head!, verb: 'fail', error: 'x', delayMs: 0 }])
  const row = await jobRow(db, second!)
  assert.deepEqual([row.status, row.reason], ['cancelled', 'why'])
  const again = await claimRun(lane, { worker })
  assert.deepEqual(idsOf(again), [first, third])
  await completeAll(lane, worker, again)
  await nothingLeft(db)
})

test('jobs that a redrive has just revived are not parked by a check that looked before', async (t) => {
  const { db, lane } = await orderedQueue(t, 'park')
  const ids = await enqueueInKey(lane, 3)
  await bury(lane, worker, (await claimRun(lane, { worker }))[0]!)
  const later = (await enqueueInKey(lane, 1))[0]!
  const checker = await stopsIn(db, 'park_behind', 'moved := moved +')
  const checked = claimRuns(checker.lane)
  await checker.arrived()
  const operator = await session(db)
  const redriven = redrive(operator.lane, [ids[0]!])
  await Promise.race([redriven, waitUntilBlocked(await db.connect(), operator.pid)])
  await checker.open()
  const taken = await checked
  assert.deepEqual(new Set(await redriven).has(ids[0]!), true)
  assert.deepEqual(await broken(db), [])
  await completeAll(lane, worker, taken)
  const seen: string[] = []
  for (let run = await claimRun(lane, { worker }); run.length > 0; run = await claimRun(lane, { worker })) {
    seen.push(...idsOf(run))
    await completeAll(lane, worker, run)
  }
  assert.deepEqual(seen, [...ids, later])
  await nothingLeft(db)
})

test('a check does not park a job behind a dead letter that an open transaction redrives', async (t) => {
  const { db, lane } = await orderedQueue(t, 'park')
  const ids = await enqueueInKey(lane, 3)
  await bury(lane, worker, (await claimRun(lane, { worker }))[0]!)
  const later = (await enqueueInKey(lane, 1))[0]!
  const operator = await session(db)
  await operator.client.query('begin')
  await redrive(operator.lane, [ids[0]!])
  assert.deepEqual(await claimRuns(lane), [], 'the key is checked, and its dead letter is still there')
  await operator.client.query('commit')
  assert.deepEqual(await broken(db), [])
  const run = await claimRun(lane, { worker })
  assert.deepEqual(idsOf(run), [...ids, later])
  await completeAll(lane, worker, run)
  await nothingLeft(db)
})

test('a queue and a key that contain a slash are not mistaken for another queue and key', async (t) => {
  const { db, lane } = await orderedQueue(t)
  await db.pool.query("insert into leasehold.queue (name, ordered) values ('a', true), ('a/b', true)")
  await enqueue(lane, [
    { kind: 'mail', queue: 'a', partitionKey: 'b/c', input: 1 },
    { kind: 'mail', queue: 'a/b', partitionKey: 'c', input: 2 },
  ])
  const claimed = await claimRuns(lane, { queues: ['a', 'a/b'], worker })
  assert.equal(claimed.length, 2)
})

test('a job that is enqueued while the one in front of it dies waits behind the dead letter', async (t) => {
  for (const [name, before] of [
    ['enqueue_alike_in_order', 'blocks := array_fill'],
    ['enqueue_in_order', 'return query'],
  ] as const) {
    const { db, lane } = await orderedQueue(t)
    const [first] = await enqueueInKey(lane, 1)
    const [head] = await claimRun(lane, { worker })
    const producer = await stopsIn(db, name, before)
    const metadata = name === 'enqueue_in_order' ? { metadata: { a: 1 } } : {}
    const stored = enqueueInKey(producer.lane, 1, metadata)
    await producer.arrived()
    await bury(lane, worker, head!)
    await producer.open()
    const [second] = await stored
    assert.deepEqual(await claimRuns(lane), [], name)
    assert.deepEqual(await broken(db), [], name)
    assert.deepEqual(await redrive(lane, [first!]), [first])
    assert.deepEqual(idsOf(await claimRun(lane)), [first, second], name)
  }
})

test('of many keys in one call those in use are waited for, and the others start at once', async (t) => {
  const { db, lane } = await orderedQueue(t)
  const batch = (keys: readonly number[]) =>
    enqueue(
      lane,
      keys.map((key) => ({ kind: 'mail', partitionKey: `${key}`, input: key })),
    )
  const [used] = await batch([75])
  const added = await batch(Array.from({ length: 150 }, (_, key) => key))
  assert.deepEqual(await broken(db), [])
  const heads = await claimRuns(lane, { worker, limit: 500, runLength: 1 })
  const expected = [used!.jobId, ...idsOf(added.filter((_, key) => key !== 75))]
  assert.deepEqual(idsOf(heads).sort(), expected.sort())
})
