// Enqueues of ordered queues: places follow commits, whatever producers do at the same time.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Lane } from '../../src/db/lane.ts'
import { kind, queue, withTransaction } from '../../src/index.ts'
import { complete, completeWithin } from '../../src/jobs/completion.ts'
import { enqueue } from '../../src/jobs/enqueue.ts'
import { waitUntilBlocked } from '../support/database.ts'
import {
  broken,
  claimRun,
  claimRuns,
  countRows,
  enqueueInKey,
  idsOf,
  nothingLeft,
  orderedQueue,
} from '../support/order.ts'
import { completeAll, newWorker, session } from '../support/queue.ts'
import { codeOf, scene } from '../support/worker.ts'

const worker = newWorker()

test('of two producers the one that commits first comes first, and none overtakes an open transaction', async (t) => {
  for (const options of [{}, { metadata: { a: 1 } }, { idempotencyKey: 'i' }]) {
    const { db, lane } = await orderedQueue(t)
    const [slow, quick] = [await session(db), await session(db)]
    await slow.client.query('begin')
    const [first] = await enqueueInKey(slow.lane, 1, options)
    const next = enqueueInKey(quick.lane, 1, {
      ...options,
      ...('idempotencyKey' in options && { idempotencyKey: 'j' }),
    })
    await waitUntilBlocked(await db.connect(), quick.pid)
    assert.deepEqual(await claimRuns(lane), [], 'nothing has been committed')
    await slow.client.query('commit')
    const [second] = await next
    assert.deepEqual(idsOf(await claimRun(lane)), [first, second])
    assert.deepEqual(await broken(db), [])
  }
})

test('a producer that waits for a key has no place in it yet', async (t) => {
  for (const options of [{}, { metadata: { a: 1 } }]) {
    const { db, lane } = await orderedQueue(t)
    const [first, second] = [await session(db), await session(db)]
    await first.client.query('begin')
    const ids = await enqueueInKey(first.lane, 1, options)
    const waits = enqueueInKey(second.lane, 1, options)
    await waitUntilBlocked(await db.connect(), second.pid)
    ids.push(...(await enqueueInKey(first.lane, 1, options)))
    await first.client.query('commit')
    ids.push(...(await waits))
    assert.deepEqual(idsOf(await claimRun(lane)), ids, 'by commit')
  }
})

test('a producer that rolls back leaves no gap that holds up its key', async (t) => {
  const { db, lane } = await orderedQueue(t)
  const [slow, quick] = [await session(db), await session(db)]
  await slow.client.query('begin')
  await enqueueInKey(slow.lane, 2)
  const next = enqueueInKey(quick.lane, 2)
  await waitUntilBlocked(await db.connect(), quick.pid)
  await slow.client.query('rollback')
  const run = await next
  assert.deepEqual(idsOf(await claimRun(lane)), run)
})

test('a completion does not wait for an open enqueue, whose job the first claim after its commit returns', async (t) => {
  const { db, lane } = await orderedQueue(t)
  for (const many of [1, 60]) {
    await enqueueInKey(lane, many)
    const run = await claimRun(lane, { worker })
    assert.equal(run.length, many)
    const producer = await session(db)
    await producer.client.query('begin')
    const [later] = await enqueueInKey(producer.lane, 1)
    assert.deepEqual((await complete(lane, worker, run)).busy, [])
    assert.deepEqual(await claimRuns(lane), [], 'not committed yet')
    assert.deepEqual(await claimRuns(lane), [], 'and looked at more than once')
    await producer.client.query('commit')
    const next = await claimRun(lane, { worker })
    assert.deepEqual(idsOf(next), [later])
    await completeAll(lane, worker, next)
    await nothingLeft(db)
  }
})

test('an open enqueue that rolls back after the last job has left leaves nothing of its key', async (t) => {
  const { db, lane } = await orderedQueue(t)
  await enqueueInKey(lane, 1)
  const run = await claimRun(lane, { worker })
  const producer = await session(db)
  await producer.client.query('begin')
  await enqueueInKey(producer.lane, 1)
  await completeAll(lane, worker, run)
  await producer.client.query('rollback')
  assert.deepEqual(await claimRuns(lane), [])
  await nothingLeft(db)
})

test('an enqueue waits for a completion that removes the last job of its key, and is let in', async (t) => {
  const { db, lane } = await orderedQueue(t)
  await enqueueInKey(lane, 1)
  const run = await claimRun(lane, { worker })
  const [ending, producer] = [await session(db), await session(db)]
  await ending.client.query('begin')
  await complete(ending.lane, worker, run)
  const stored = enqueueInKey(producer.lane, 2)
  await waitUntilBlocked(await db.connect(), producer.pid)
  await ending.client.query('commit')
  const ids = await stored
  assert.deepEqual(idsOf(await claimRun(lane)), ids)
})

for (const level of ['repeatable read', 'serializable']) {
  test(`a producer at ${level}, whose snapshot shows a job that has left, is let in or refused`, async (t) => {
    const { db, lane } = await orderedQueue(t)
    await enqueueInKey(lane, 1)
    const run = await claimRun(lane, { worker })
    const producer = await session(db)
    await producer.client.query(`begin isolation level ${level}`)
    await producer.client.query('select count(*) from leasehold.job')
    await completeAll(lane, worker, run)
    const [stored] = await enqueueInKey(producer.lane, 1)
    await producer.client.query('commit')
    assert.deepEqual(idsOf(await claimRun(lane, { worker })), [stored])
    assert.deepEqual(await broken(db), [])

    // The key has been used since the snapshot: Postgres refuses.
    const other = await session(db)
    await other.client.query(`begin isolation level ${level}`)
    await other.client.query('select count(*) from leasehold.job')
    await enqueueInKey(lane, 1)
    assert.equal(await codeOf(() => enqueueInKey(other.lane.within(other.client), 1)), 'TRANSACTION_CONFLICT')
    await other.client.query('rollback')
    assert.deepEqual(await broken(db), [])
  })

  test(`a producer at ${level} that meets an exit and a producer that rolls back is not stuck`, async (t) => {
    const { db, lane } = await orderedQueue(t)
    await enqueueInKey(lane, 1)
    const run = await claimRun(lane, { worker })
    const [strict, brief] = [await session(db), await session(db)]
    await strict.client.query(`begin isolation level ${level}`)
    await strict.client.query('select count(*) from leasehold.job')
    await brief.client.query('begin')
    await enqueueInKey(brief.lane, 1)
    await completeAll(lane, worker, run)
    await brief.client.query('rollback')
    const [stored] = await enqueueInKey(strict.lane, 1)
    assert.deepEqual(await claimRuns(lane), [])
    await strict.client.query('commit')
    assert.deepEqual(await broken(db), [])
    assert.deepEqual(idsOf(await claimRun(lane)), [stored])
  })
}

test('two bulk enqueues of 10,000 keys at once, in opposite orders, store every job', async (t) => {
  const { db, lane } = await orderedQueue(t)
  const [one, other] = [await session(db), await session(db)]
  const jobs = Array.from({ length: 10_000 }, (_, n) => ({ kind: 'mail', input: n, partitionKey: `k${n}` }))
  const mixed = jobs.map((job) => ({ ...job, metadata: { a: 1 } }))
  // A third transaction holds a key in the middle until both wait.
  const third = await session(db)
  const observer = await db.connect()
  await third.client.query('begin')
  await enqueueInKey(third.lane, 1, { partitionKey: 'k5000' })
  const both = [enqueue(one.lane, jobs), enqueue(other.lane, mixed.reverse())]
  for (const { pid } of [one, other]) await waitUntilBlocked(observer, pid)
  await third.client.query('rollback')
  await Promise.all(both)
  assert.deepEqual([await countRows(db, 'job'), await countRows(db, 'order_key')], [20_000, 10_000])
  assert.deepEqual(await broken(db), [])
  const { rows } = await db.pool.query('select count(*)::int as heads from leasehold.job where not blocked')
  assert.equal(rows[0].heads, 10_000)
  const deadlocks = 'select deadlocks::int as count from pg_stat_database where datname = current_database()'
  assert.equal((await db.pool.query(deadlocks)).rows[0].count, 0, 'keys are locked in one order')
  const run = await claimRuns(lane, { limit: 500, runLength: 2 })
  assert.ok(run.every((job) => job.run?.length === 1))
})

test('of two transactions that touch two keys in opposite orders one is refused, and nothing is lost', async (t) => {
  const { db, lh } = await scene(t)
  const step = kind<number>('step', { ordered: true })
  await lh.configure([queue('step', { ordered: true })])
  const lane = new Lane(db.pool)
  const observer = await db.connect()
  const [one, other] = [await session(db), await session(db)]
  const add = ({ client }: typeof one, key: string) => lh.enqueue(step, 1, { partitionKey: key, tx: client })
  for (const { client } of [one, other]) await client.query('begin')
  await add(one, 'a')
  await add(other, 'b')
  const end = async (by: typeof one, key: string) => {
    const outcome = await codeOf(() => add(by, key))
    await by.client.query(outcome === 'nothing was thrown' ? 'commit' : 'rollback')
    return outcome
  }
  const first = end(one, 'b')
  await waitUntilBlocked(observer, one.pid)
  const outcomes = await Promise.all([first, end(other, 'a')])
  assert.deepEqual(outcomes.sort(), ['TRANSACTION_CONFLICT', 'nothing was thrown'])
  assert.deepEqual(await broken(db), [])
  assert.equal((await claimRuns(lane, { queues: ['step'], kinds: ['step'] })).length, 2)
})

test('20,000 keys that are used once leave nothing behind', async (t) => {
  const { db, lane } = await orderedQueue(t)
  for (let at = 0; at < 20_000; at += 10_000) {
    const key = (n: number) => `k${at + n}`
    await enqueue(
      lane,
      Array.from({ length: 10_000 }, (_, n) => ({ kind: 'mail', input: n, partitionKey: key(n) })),
    )
  }
  for (let done = 0; done < 20_000; done += 1_000) {
    const heads = await claimRuns(lane, { worker, limit: 1_000 })
    assert.equal(heads.length, 1_000)
    await completeAll(lane, worker, heads)
  }
  await nothingLeft(db)
})

test('a key that is taken stores nothing, and draws no place in its partition key', async (t) => {
  const { db, lane } = await orderedQueue(t)
  const job = { kind: 'mail', input: 1, partitionKey: 'k', idempotencyKey: 'i' }
  const [first] = await enqueue(lane, [job])
  const answers = await enqueue(lane, [job, { ...job, idempotencyKey: 'j' }, { ...job, input: 2 }])
  assert.deepEqual(
    answers.map(({ outcome }) => outcome),
    ['existing', 'created', 'conflict'],
  )
  assert.deepEqual(idsOf(await claimRun(lane, { worker })), [first!.jobId, answers[1]!.jobId])
  assert.deepEqual(await broken(db), [])
})

test('an idempotency key that waits for another transaction does not take a place before it', async (t) => {
  const { db, lane } = await orderedQueue(t)
  const [one, other] = [await session(db), await session(db)]
  const job = { kind: 'mail', input: 1, partitionKey: 'k', idempotencyKey: 'i' }
  await one.client.query('begin')
  const [held] = await enqueue(one.lane, [job])
  const waits = enqueue(other.lane, [job, { ...job, idempotencyKey: 'j' }])
  await waitUntilBlocked(await db.connect(), other.pid)
  await one.client.query('commit')
  const [existing, created] = await waits
  assert.deepEqual([existing!.jobId, existing!.outcome], [held!.jobId, 'existing'])
  assert.deepEqual(idsOf(await claimRun(lane)), [held!.jobId, created!.jobId])
})

test('a batch for several queues keeps the order of the ordered ones, and stores the others', async (t) => {
  const { db, lane } = await orderedQueue(t)
  const answers = await enqueue(lane, [
    { kind: 'mail', input: 1, partitionKey: 'k' },
    { kind: 'mail', queue: 'plain', input: 2 },
    { kind: 'mail', input: 3, partitionKey: 'k' },
    { kind: 'mail', queue: 'plain', input: 4, partitionKey: 'k' },
  ])
  const claimed = await claimRuns(lane, { queues: ['mail', 'plain'] })
  const ids = answers.map(({ jobId }) => jobId)
  assert.deepEqual(
    claimed.map(({ jobId, run }) => [jobId, idsOf(run ?? [])]).sort(),
    [
      [ids[0], [ids[2]]],
      [ids[1], []],
      [ids[3], []],
    ].sort(),
  )
  assert.deepEqual(await broken(db), [])
})

test('an enqueue does not wait for an open transaction that completes the last job of its key', async (t) => {
  const { db, lane } = await orderedQueue(t)
  await enqueueInKey(lane, 1)
  const [first] = await claimRun(lane, { worker })
  const open = await session(db)
  await open.client.query('begin')
  await completeWithin(open.lane, worker, first!)
  await enqueueInKey(lane, 1) // On another connection, as a handler may do before it commits.
  assert.equal((await claimRun(lane, { worker })).length, 0)
  await open.client.query('commit')
  assert.equal((await claimRun(lane, { worker })).length, 1)
})

test('a handler that completes its job and enqueues for the same key, in one transaction, is next', async (t) => {
  const { db, lane } = await orderedQueue(t)
  await enqueueInKey(lane, 1)
  const run = await claimRun(lane, { worker })
  const ids = await withTransaction(db.pool, async (tx) => {
    const within = lane.within(tx)
    const [before] = await enqueueInKey(within, 1)
    await complete(within, worker, run)
    const [after] = await enqueueInKey(within, 1)
    return [before, after]
  })
  assert.deepEqual(idsOf(await claimRun(lane)), ids)
  assert.deepEqual(await broken(db), [])
})
