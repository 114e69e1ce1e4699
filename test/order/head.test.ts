// What becomes of a key when its first job does not simply succeed.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { expire, pruneDeadLetters } from '../../src/jobs/housekeeping.ts'
import { cancel, redrive } from '../../src/jobs/operator.ts'
import { blockedKeys, unblock } from '../../src/jobs/order.ts'
import { settle } from '../../src/jobs/outcome.ts'
import {
  broken,
  bury,
  claimRun,
  claimRuns,
  countRows,
  enqueueInKey,
  idsOf,
  nothingLeft,
  type Ordered,
  orderedQueue,
} from '../support/order.ts'
import { completeAll, jobRow, newWorker } from '../support/queue.ts'

const worker = newWorker()

/** Works everything off, and returns the ids in the order in which they could start. */
async function workOff({ lane }: Ordered, runLength = 100): Promise<string[]> {
  const order: string[] = []
  for (;;) {
    const run = await claimRun(lane, { worker, runLength })
    if (run.length === 0) return order
    order.push(...idsOf(run))
    await completeAll(lane, worker, run)
  }
}

test('jobs behind a delayed one wait for it, and it is not delayed by them', async (t) => {
  const key = await orderedQueue(t)
  const { db, lane } = key
  const delayed = await enqueueInKey(lane, 1, { delayMs: 60_000 })
  const rest = await enqueueInKey(lane, 2)
  assert.deepEqual(await claimRuns(lane), [])
  await db.clock.advance('61 s')
  assert.deepEqual(await workOff(key), [...delayed, ...rest])
  await nothingLeft(db)
})

test('a delayed job in the middle keeps its delay when it is let in', async (t) => {
  const key = await orderedQueue(t)
  const { db, lane } = key
  const first = await enqueueInKey(lane, 1)
  const delayed = await enqueueInKey(lane, 1, { delayMs: 60_000 })
  const last = await enqueueInKey(lane, 1)
  assert.deepEqual(await workOff(key), first)
  await db.clock.advance('61 s')
  assert.deepEqual(await workOff(key), [...delayed, ...last])
})

for (const verb of ['fail', 'snooze', 'release'] as const) {
  test(`the rest of a run is returned with a head that ends as ${verb}, and spends no attempt`, async (t) => {
    const key = await orderedQueue(t)
    const { db, lane } = key
    const ids = await enqueueInKey(lane, 3)
    const [head] = await claimRun(lane, { worker })
    await settle(lane, worker, [{ ...head!, verb, error: 'x', delayMs: 60_000 }])
    assert.deepEqual(await broken(db), [])
    const rows = await Promise.all(ids.map((id) => jobRow(db, id)))
    const spent = verb === 'fail' ? 1 : 0
    assert.deepEqual(
      rows.map(({ status, attempts }) => [status, attempts]),
      [
        ['pending', spent],
        ['pending', 0],
        ['pending', 0],
      ],
    )
    if (verb !== 'release') {
      assert.deepEqual(await claimRuns(lane), [], 'nothing overtakes the head')
      await db.clock.advance('61 s')
    }
    assert.deepEqual(await workOff(key), ids)
    await nothingLeft(db)
  })
}

test('the next job is let in when the head is cancelled, or expires', async (t) => {
  const key = await orderedQueue(t)
  const { db, lane } = key
  const expiring = await enqueueInKey(lane, 1, { expiresAt: new Date(Date.now() + 30_000) })
  const [second, third] = await enqueueInKey(lane, 2)
  await db.clock.advance('31 s')
  assert.deepEqual(await claimRuns(lane), [])
  assert.deepEqual(await expire(lane, 10), expiring)
  assert.deepEqual(await broken(db), [])
  assert.equal((await cancel(lane, [second!]))[0]?.outcome, 'cancelled')
  assert.deepEqual(await workOff(key), [third])
  await nothingLeft(db)
})

test('jobs that are cancelled or expire behind the head change nothing for it', async (t) => {
  const key = await orderedQueue(t)
  const { db, lane } = key
  const [first] = await enqueueInKey(lane, 1)
  await enqueueInKey(lane, 1, { expiresAt: new Date(Date.now() + 30_000) })
  const [third, last] = await enqueueInKey(lane, 2)
  const run = await claimRun(lane, { worker, runLength: 1 })
  await db.clock.advance('31 s')
  await expire(lane, 10)
  await cancel(lane, [third!])
  assert.deepEqual(await broken(db), [])
  assert.deepEqual(await claimRuns(lane), [])
  assert.deepEqual(idsOf(run), [first])
  await completeAll(lane, worker, run)
  assert.deepEqual(await workOff(key), [last])
})

test('block: a dead letter stops its key until it is redriven, and then goes first', async (t) => {
  const key = await orderedQueue(t, 'block')
  const { db, lane } = key
  const ids = await enqueueInKey(lane, 3)
  await bury(lane, worker, (await claimRun(lane, { worker }))[0]!)
  ids.push(...(await enqueueInKey(lane, 1)))
  assert.deepEqual(await claimRuns(lane), [])
  const [blocked] = await blockedKeys(lane, { queue: 'mail' })
  assert.deepEqual([blocked?.jobId, blocked?.why, blocked?.waiting], [ids[0], 'dead_letter', 3])
  assert.deepEqual(await redrive(lane, [ids[0]!]), [ids[0]])
  assert.deepEqual(await broken(db), [])
  assert.deepEqual(await workOff(key), ids)
  await nothingLeft(db)
})

test('skip: a dead letter lets its key go on, and goes to the back when it is redriven', async (t) => {
  const key = await orderedQueue(t, 'skip')
  const { db, lane } = key
  const [first, second, third] = await enqueueInKey(lane, 3)
  await bury(lane, worker, (await claimRun(lane, { worker, runLength: 1 }))[0]!)
  const [head] = await claimRun(lane, { worker, runLength: 1 })
  assert.equal(head?.jobId, second)
  assert.deepEqual(await redrive(lane, [first!]), [first])
  assert.deepEqual(await broken(db), [])
  await completeAll(lane, worker, [head!])
  assert.deepEqual(await workOff(key), [third, first])
  await nothingLeft(db)
})

test('skip: a dead letter of a key that is empty by now is redriven at once', async (t) => {
  const key = await orderedQueue(t, 'skip')
  const [only] = await enqueueInKey(key.lane, 1)
  await bury(key.lane, worker, (await claimRun(key.lane, { worker }))[0]!)
  assert.equal(await countRows(key.db, 'order_key'), 0)
  await redrive(key.lane, [only!])
  assert.deepEqual(await broken(key.db), [])
  assert.deepEqual(await workOff(key), [only])
  await nothingLeft(key.db)
})

test('park: what follows a dead letter is parked with it, and redriven with it, in order', async (t) => {
  const key = await orderedQueue(t, 'park')
  const { db, lane } = key
  const ids = await enqueueInKey(lane, 3)
  await bury(lane, worker, (await claimRun(lane, { worker }))[0]!)
  ids.push(...(await enqueueInKey(lane, 1)), ...(await enqueueInKey(lane, 1, { metadata: { a: 1 } })))
  assert.deepEqual(await claimRuns(lane), [])
  const { rows } = await db.pool.query('select id, reason, blocks_key from leasehold.dead_letter order by key_seq')
  assert.deepEqual(
    rows,
    ids.map((id, n) => ({ id, reason: n === 0 ? 'fatal' : 'parked', blocks_key: true })),
  )
  assert.equal(await countRows(db, 'job'), 0)
  assert.deepEqual(new Set(await redrive(lane, [ids[0]!])), new Set(ids))
  assert.deepEqual(await broken(db), [])
  assert.deepEqual(await workOff(key), ids)
  await nothingLeft(db)
})

test('park: 2,500 jobs are parked a thousand at a time, and come back in order', async (t) => {
  const key = await orderedQueue(t, 'park')
  const { db, lane } = key
  const ids = await enqueueInKey(lane, 2_501)
  await bury(lane, worker, (await claimRun(lane, { worker, runLength: 1 }))[0]!)
  assert.equal(await countRows(db, 'job'), 1_500)
  for (const left of [500, 0, 0]) {
    assert.deepEqual(await claimRuns(lane), [])
    assert.equal(await countRows(db, 'job'), left)
  }
  assert.equal(await countRows(db, 'order_check'), 0)
  assert.equal((await redrive(lane, [ids[0]!])).length, 2_501)
  assert.deepEqual(await workOff(key, 1_000), ids)
  await nothingLeft(db)
})

test('unblock: the key goes on, and the dead letter stays', async (t) => {
  for (const [onDeadLetter, left] of [
    ['block', 1],
    ['park', 3],
  ] as const) {
    const key = await orderedQueue(t, onDeadLetter)
    const { db, lane } = key
    const ids = await enqueueInKey(lane, 3)
    await bury(lane, worker, (await claimRun(lane, { worker }))[0]!)
    assert.equal(await unblock(lane, { queue: 'mail', partitionKey: 'k' }, { by: 'ada' }), 'unblocked')
    assert.equal(await unblock(lane, { queue: 'mail', partitionKey: 'k' }), 'not_blocked')
    assert.equal(await countRows(db, 'dead_letter'), left)
    const [later] = await enqueueInKey(lane, 1)
    assert.deepEqual(await broken(db), [])
    assert.deepEqual(await workOff(key), onDeadLetter === 'block' ? [...ids.slice(1), later] : [later])
    await redrive(lane, [ids[0]!])
    assert.deepEqual(await workOff(key), [ids[0]], 'it goes to the back')
    await nothingLeft(db)
  }
})

test('a dead letter that blocks its key is never pruned', async (t) => {
  const { db, lane } = await orderedQueue(t)
  const ids = await enqueueInKey(lane, 2)
  await bury(lane, worker, (await claimRun(lane, { worker }))[0]!)
  await db.clock.advance('1 year')
  assert.equal(await pruneDeadLetters(lane, 1_000), 0)
  await unblock(lane, { queue: 'mail', partitionKey: 'k' })
  assert.equal(await pruneDeadLetters(lane, 1_000), 1)
  assert.deepEqual(idsOf(await claimRun(lane)), ids.slice(1))
})
