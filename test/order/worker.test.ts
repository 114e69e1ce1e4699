// Order per key, as workers keep it.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Lane } from '../../src/db/lane.ts'
import { handle, kind, queue, withTransaction } from '../../src/index.ts'
import { complete } from '../../src/jobs/completion.ts'
import { claimNext, newWorker } from '../support/queue.ts'
import { until } from '../support/until.ts'
import { scene } from '../support/worker.ts'

const step = kind<{ key: string; n: number }>('step', { ordered: true, backoff: { first: 1 } })

test('two workers run the jobs of each key one after the other, in the order of their enqueues', async (t) => {
  const { db, lh, worker } = await scene(t)
  await lh.configure([queue('step', { ordered: true })])
  const started = new Map<string, number[]>()
  const running = new Set<string>()
  const overlaps: string[] = []
  const run = handle(step, async ({ input: { key, n } }) => {
    if (running.has(key)) overlaps.push(`${key}/${n}`)
    running.add(key)
    started.set(key, [...(started.get(key) ?? []), n])
    if (n % 7 === 0) await new Promise((resolve) => setImmediate(resolve))
    running.delete(key)
  })
  const [one, other] = [worker([run], { concurrency: 5 }), worker([run], { concurrency: 5 })]
  const jobs = Array.from({ length: 2_000 }, (_, i) => ({ key: `key:${i % 20}`, n: Math.floor(i / 20) }))
  for (let at = 0; at < jobs.length; at += 250) {
    await lh.enqueueMany(
      step,
      jobs.slice(at, at + 250).map((input) => ({ input, partitionKey: input.key })),
    )
  }
  await until('all are completed', () => one.tally.completed + other.tally.completed === 2_000)
  assert.deepEqual(overlaps, [])
  for (const [key, order] of started)
    assert.deepEqual(
      order,
      order.map((_, n) => n),
      key,
    )
  assert.equal(started.size, 20)
  const left = await db.pool.query(
    'select (select count(*) from leasehold.order_key) as keys, (select count(*) from leasehold.order_check) as checks',
  )
  assert.deepEqual(left.rows[0], { keys: '0', checks: '0' })
})

test('one key moves in runs', async (t) => {
  const { lh, worker } = await scene(t)
  await lh.configure([queue('step', { ordered: true })])
  const order: number[] = []
  await lh.enqueueMany(
    step,
    Array.from({ length: 5_000 }, (_, n) => ({ input: { key: 'one', n }, partitionKey: 'one' })),
  )
  const only = worker([handle(step, async ({ input: { n } }) => void order.push(n))], { concurrency: 10 })
  await until('all are completed', () => only.tally.completed === 5_000)
  assert.deepEqual(
    order,
    order.map((_, n) => n),
  )
})

test('a failed head is retried before the rest of its run', async (t) => {
  const { lh, worker } = await scene(t)
  await lh.configure([queue('step', { ordered: true })])
  const order: string[] = []
  const failed = new Set<number>()
  await lh.enqueueMany(
    step,
    Array.from({ length: 300 }, (_, n) => ({ input: { key: 'one', n }, partitionKey: 'one' })),
  )
  const only = worker([
    handle(step, async ({ input: { n } }) => {
      if (n % 30 === 5 && !failed.has(n)) {
        failed.add(n)
        order.push(`${n}!`)
        throw new Error('once')
      }
      order.push(`${n}`)
    }),
  ])
  await until('all are completed', () => only.tally.completed === 300)
  assert.deepEqual(order, Array.from({ length: 300 }, (_, n) => (n % 30 === 5 ? [`${n}!`, `${n}`] : [`${n}`])).flat())
})

test('two enqueues in one transaction keep their order', async (t) => {
  const { db, lh } = await scene(t)
  await lh.configure([queue('step', { ordered: true })])
  await withTransaction(db.pool, async (tx) => {
    await lh.enqueue(step, { key: 'k', n: 1 }, { tx, partitionKey: 'k' })
    await lh.enqueue(step, { key: 'k', n: 2 }, { tx, partitionKey: 'k' })
  })
  const { rows } = await db.pool.query('select label from leasehold.jobs order by id')
  assert.deepEqual(
    rows.map(({ label }) => label),
    ['ready', 'blocked'],
  )
})

test('claims write nothing while a producer keeps a key that is empty', async (t) => {
  const { db, lh } = await scene(t)
  const lane = new Lane(db.pool)
  const worker = newWorker()
  const claimOne = () => claimNext(lane, { queues: ['step'], worker })
  await lh.configure([queue('step', { ordered: true })])
  await lh.enqueue(step, { key: 'k', n: 1 }, { partitionKey: 'k' })
  const [first] = await claimOne()
  const tx = await db.connect()
  await tx.query('begin')
  await lh.enqueue(step, { key: 'k', n: 2 }, { tx, partitionKey: 'k' })
  assert.deepEqual(await complete(lane, worker, [first!]), { refused: [], busy: [] })
  const notes = async () => (await db.pool.query('select id, ctid::text, xmax::text from leasehold.order_check')).rows
  const before = await notes()
  assert.equal(before.length, 1)
  for (let look = 0; look < 5; look++) assert.equal((await claimOne()).length, 0)
  assert.deepEqual(await notes(), before)
  await tx.query('commit')
  assert.equal((await claimOne()).length, 1)
})
