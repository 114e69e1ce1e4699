// An idempotency key is forgotten some time after its job has finished, at no cost for keys that must stay.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Lane } from '../../src/db/lane.ts'
import { complete } from '../../src/jobs/completion.ts'
import { enqueue } from '../../src/jobs/enqueue.ts'
import { pruneDeadLetters, pruneKeys } from '../../src/jobs/housekeeping.ts'
import { redrive } from '../../src/jobs/operator.ts'
import { settle } from '../../src/jobs/outcome.ts'
import { freshDatabase } from '../support/database.ts'
import { claimNext, newWorker, pruneHistory } from '../support/queue.ts'

const DAY_MS = 86_400_000
const worker = newWorker()

async function setUp(t: Parameters<typeof freshDatabase>[0]) {
  const db = await freshDatabase(t)
  return { db, lane: new Lane(db.pool) }
}

test('an idempotency key is kept while its job lives and for its time after that', async (t) => {
  const { db, lane } = await setUp(t)
  await db.clock.set('2030-01-01T12:00:00Z')
  const job = { kind: 'mail', input: 1, idempotencyKey: 'k', keepKeyMs: 3_600_000 }
  const pruneAll = async () => (await pruneKeys(lane)).pruned
  const [first] = await enqueue(lane, [job])
  await db.clock.advance('2 days')
  assert.equal(await pruneAll(), 0, 'pending')
  const [taken] = await claimNext(lane, { worker })
  await settle(lane, worker, [{ ...taken!, verb: 'bury', error: 'x', reason: 'fatal' }])
  await db.clock.advance('2 days')
  assert.equal(await pruneAll(), 0, 'a dead letter')
  await redrive(lane, [first!.jobId])
  // It is due again an hour after the last look, and its job is done later than that look: so it is looked at too early.
  await db.clock.advance('30 min')
  await complete(lane, worker, await claimNext(lane, { worker }))
  await db.clock.advance('59 min')
  assert.equal(await pruneAll(), 0, 'finished, but not long ago')
  assert.equal((await enqueue(lane, [job]))[0]?.outcome, 'existing')
  await db.clock.advance('2 min')
  assert.equal(await pruneAll(), 1)
  const [again] = await enqueue(lane, [job])
  assert.equal(again?.outcome, 'created')
  assert.notEqual(again?.jobId, first?.jobId)
})

test('a key is forgotten soon after its dead letter, even with a longer retention', async (t) => {
  const { db, lane } = await setUp(t)
  await enqueue(lane, [{ kind: 'mail', input: 1, idempotencyKey: 'k', keepKeyMs: 30 * DAY_MS }])
  const [taken] = await claimNext(lane, { worker })
  await settle(lane, worker, [{ ...taken!, verb: 'bury', error: 'x', reason: 'fatal' }])
  await db.clock.advance('31 days')
  assert.deepEqual(await pruneKeys(lane, 1), { pruned: 0, more: true })
  assert.equal(await pruneDeadLetters(lane, 31 * DAY_MS), 1)
  await db.clock.advance('25 hours')
  assert.equal((await pruneKeys(lane)).pruned, 1)
})

test('a key that SQL has stored is forgotten in its time, too', async (t) => {
  const { db, lane } = await setUp(t)
  await db.pool.query(
    'select leasehold.enqueue(\'mail\', \'1\', \'{"idempotency_key": "k", "keep_key_for": "2 hours"}\')',
  )
  await complete(lane, worker, await claimNext(lane, { worker }))
  await db.clock.advance('119 min')
  assert.deepEqual(await pruneKeys(lane, 1), { pruned: 0, more: false }, 'it is not looked at before')
  await db.clock.advance('10 min')
  assert.equal((await pruneKeys(lane)).pruned, 1)
})

test('neither the archive nor a dead letter is forgotten while its key must be kept', async (t) => {
  const { db, lane } = await setUp(t)
  const month = 30 * DAY_MS
  const jobs = ['done', 'dead'].map((key) => ({ kind: 'mail', input: 1, idempotencyKey: key, keepKeyMs: month }))
  await enqueue(lane, jobs)
  const [done, dead] = await claimNext(lane, { worker, limit: 2 })
  await complete(lane, worker, [done!])
  await settle(lane, worker, [{ ...dead!, verb: 'bury', error: 'x', reason: 'fatal' }])
  const outcomes = async () => (await enqueue(lane, jobs)).map((answer) => answer.outcome)
  const forget = async () => {
    for (let call = 0; call < 3; call++) await pruneHistory(lane, DAY_MS)
    await pruneDeadLetters(lane, DAY_MS)
    await pruneKeys(lane)
  }
  await db.clock.advance('20 days')
  await forget()
  assert.deepEqual(await outcomes(), ['existing', 'existing'])
  await db.clock.advance('11 days')
  await forget()
  await forget()
  assert.deepEqual(await outcomes(), ['created', 'created'])
})

test('keys are pruned a bounded number at a time', async (t) => {
  const { db, lane } = await setUp(t)
  const jobs = Array.from({ length: 25 }, (_, n) => ({ kind: 'mail', input: n, idempotencyKey: `k${n}` }))
  await enqueue(lane, jobs)
  await complete(lane, worker, await claimNext(lane, { worker, limit: 25 }))
  await db.clock.advance('25 hours')
  const pruned: number[] = []
  for (let more = true; more && pruned.length < 10; ) {
    const answer = await pruneKeys(lane, 10)
    pruned.push(answer.pruned)
    more = answer.more
  }
  assert.deepEqual(pruned, [10, 10, 5])
})

test('pruning looks at each key when it may be free, and never at those that must stay', async (t) => {
  const { db, lane } = await setUp(t)
  await db.clock.set('2030-01-01T12:00:00Z')
  const keyed = (key: string, keepKeyMs: number) => ({ kind: 'mail', input: 1, idempotencyKey: key, keepKeyMs })
  await enqueue(
    lane,
    Array.from({ length: 30 }, (_, n) => keyed(`long ${n}`, 365 * DAY_MS)),
  )
  await enqueue(lane, [keyed('short', 3_600_000), keyed('scheduled', 3_600_000)])
  const [waits, ...done] = (await claimNext(lane, { worker, limit: 32 })).reverse()
  await complete(lane, worker, done)
  await settle(lane, worker, [{ ...waits!, verb: 'snooze', delayMs: 30 * DAY_MS }])
  await db.clock.advance('2 hours')
  // Two are due. One of them waits for its job, and is due again when the key could be free, were the job done now.
  assert.deepEqual(await pruneKeys(lane, 2), { pruned: 1, more: true })
  assert.deepEqual(await pruneKeys(lane, 2), { pruned: 0, more: false })
  await db.clock.advance('59 min')
  assert.deepEqual(await pruneKeys(lane, 1), { pruned: 0, more: false })
  await db.clock.advance('2 min')
  assert.deepEqual(await pruneKeys(lane, 1), { pruned: 0, more: true })
  assert.deepEqual(await pruneKeys(lane, 1), { pruned: 0, more: false })
})
