// The caller's transaction: a client of pg, or a function that runs a statement in it, as any driver and ORM can provide.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ClientBase } from 'pg'
import { handle, kind, type Tx, withTransaction } from '../../src/index.ts'
import { codeOf, count, next, scene } from '../support/worker.ts'

const task = kind<{ text: string }>('task')
const AWKWARD = `a "quote", a \\ and {braces}, 'null'`

/** As an ORM would run it: text and values in, objects with the driver's own types out. */
const asFunction = (client: ClientBase): Tx => {
  return async (text, values) => (await client.query(text, [...values])).rows
}

test('a job enqueued through a function exists exactly when its transaction commits', async (t) => {
  const { lh, db } = await scene(t)
  const jobs = ['one', AWKWARD].map((text) => ({ input: { text }, metadata: { text }, partitionKey: AWKWARD }))
  const enqueue = (client: ClientBase) => lh.enqueueMany(task, jobs, { tx: asFunction(client) })
  const failing = withTransaction(db.pool, async (client) => {
    await enqueue(client)
    throw new Error('rolled back')
  })
  await assert.rejects(failing, /rolled back/)
  assert.equal(await count(db, 'from leasehold.jobs'), 0)
  const stored = await withTransaction(db.pool, enqueue)
  const [, second] = await Promise.all(stored.map(({ jobId }) => lh.get(jobId)))
  assert.deepEqual(
    [second!.input, second!.metadata, second!.partitionKey],
    [jobs[1]!.input, jobs[1]!.metadata, AWKWARD],
  )
})

test('keys, once and complete work through a function', async (t) => {
  const { lh, db, worker } = await scene(t)
  await db.pool.query('create table done (text text)')
  const keyed = (text: string) =>
    withTransaction(db.pool, (client) =>
      lh.enqueue(task, { text }, { tx: asFunction(client), idempotencyKey: AWKWARD }),
    )
  const { jobId } = await keyed('one')
  assert.deepEqual(await keyed('one'), { jobId, outcome: 'existing' })
  assert.equal(await codeOf(() => keyed('two')), 'IDEMPOTENCY_CONFLICT')
  const busy = worker([
    handle(task, (job) =>
      withTransaction(db.pool, async (client) => {
        const tx = asFunction(client)
        await job.assertLease(tx)
        const noted = await job.once('note', async () => ({ text: job.input.text, at: [1, null] }), { tx })
        await client.query('insert into done values ($1)', [noted.text])
        await job.complete(tx, { ok: true })
      }),
    ),
  ])
  await next(busy, 'completed')
  assert.deepEqual((await lh.get(jobId))!.result, { ok: true })
  assert.equal(await count(db, 'from done'), 1)
})

test('through a function, once returns the same result the second time, whatever JSON it is', async (t) => {
  const { lh, db } = await scene(t)
  for (const result of [{ a: [1, null] }, 'text', [1, 'two'], true, 7, null]) {
    const { jobId } = await lh.enqueue(task, { text: 'x' })
    const [job] = await lh.claim(task)
    assert.equal(job!.id, jobId)
    const once = () =>
      withTransaction(db.pool, (client) => job!.once('effect', () => result, { tx: asFunction(client) }))
    assert.deepEqual([await once(), await once()], [result, result])
    await withTransaction(db.pool, (client) => job!.complete(result, { tx: asFunction(client) }))
    assert.deepEqual((await lh.get(jobId))!.result, result)
  }
})

test('a client without an open transaction is refused, and so is one whose transaction has failed', async (t) => {
  const { lh, db } = await scene(t)
  const client = await db.connect()
  const enqueue = () => lh.enqueue(task, { text: 'x' }, { tx: client })
  await assert.rejects(enqueue(), /no transaction is open on it; send BEGIN, or use withTransaction\(\)/)
  await client.query('begin')
  await enqueue()
  await assert.rejects(client.query('select 1 / 0'))
  await assert.rejects(enqueue(), /a statement in it has failed, so it can only be rolled back/)
  await client.query('rollback')
  // BEGIN is on its way, and so is what follows it.
  const begun = client.query('begin')
  const enqueued = enqueue()
  await begun
  await enqueued
  await client.query('commit')
  assert.equal(await count(db, 'from leasehold.jobs'), 1)
  for (const tx of [db.pool, {}, 'tx', null]) {
    assert.equal(await codeOf(() => lh.enqueue(task, { text: 'x' }, { tx: tx as never })), 'INVALID_OPTION')
  }
})
