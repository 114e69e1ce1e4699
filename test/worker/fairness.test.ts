// No job waits for ever: not for a survivor of a crash, a locked row, a large result, a kind with a small limit, or a key
// with a long retention.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import pg from 'pg'
import { Lane } from '../../src/db/lane.ts'
import { handle, kind, Leasehold, type Worker } from '../../src/index.ts'
import { startFaultyProxy } from '../../tools/faulty-proxy.ts'
import { gate } from '../support/gate.ts'
import { pruneHistory } from '../support/queue.ts'
import { until } from '../support/until.ts'
import { collect, count, inTime, isClaim, isCompletion, next, scene, statements } from '../support/worker.ts'

const task = kind<number>('task')
const other = kind<number>('other')
const numbers = (many: number) => Array.from({ length: many }, (_, input) => ({ input }))

/** The state in which the sweep leaves a job whose worker died. */
const SUSPECT = 'update leasehold.job set crashes = 1, lease_generation = 1 where kind = $1'

test('a long-running survivor of a crash delays other jobs by a lease at most', async (t) => {
  const { lh, db, worker } = await scene(t)
  const end = gate()
  await lh.enqueue(task, 1)
  await db.pool.query(SUSPECT, ['task'])
  const busy = worker([handle(task, () => end.opened), handle(other, () => {})], { lease: '1s', sweep: '100ms' })
  await next(busy, 'started', ({ kind }) => kind === 'task')
  await lh.enqueueMany(other, numbers(20))
  await until('the others have run', () => busy.tally.completed === 20)
  end.open()
  await until('so has the survivor', () => busy.tally.completed === 21)
})

test('survivors of a crash run although other handlers never end', async (t) => {
  const { lh, db, worker } = await scene(t)
  const end = gate()
  await lh.enqueue(other, 1)
  const busy = worker([handle(task, () => {}), handle(other, () => end.opened)], { lease: '1s', sweep: '100ms' })
  await next(busy, 'started')
  await lh.enqueueMany(
    task,
    numbers(3).map((job) => ({ ...job, delay: '1h' })),
  )
  await db.pool.query(
    'update leasehold.job set crashes = 2, lease_generation = 2, available_at = now() where kind = $1',
    ['task'],
  )
  await until('all have run beside it', () => busy.tally.completed === 3)
  end.open()
})

test('outcomes of locked rows do not delay the others', async (t) => {
  const { lh, db, worker } = await scene(t)
  await lh.enqueueMany(task, numbers(600))
  const locker = await db.connect()
  const end = gate()
  const busy = worker([handle(task, () => end.opened), handle(other, () => {})], { concurrency: 1_000 })
  const started = collect(busy, 'started')
  await until('all have started', () => started.length === 600)
  await locker.query('begin')
  await locker.query('select from leasehold.job for update')
  end.open()
  await lh.enqueueMany(other, numbers(50))
  await until('the others are completed', () => busy.tally.completed === 50)
  await locker.query('commit')
  await until('and then all', () => busy.tally.completed === 650)
})

test('large results are sent in several batches', async (t) => {
  const { lh, db, worker, undo } = await scene(t)
  await lh.enqueueMany(task, numbers(40))
  const sent = statements(undo)
  const end = gate()
  const busy = worker([handle(task, () => end.opened.then(() => 'x'.repeat(500_000)))], { concurrency: 40 })
  const started = collect(busy, 'started')
  await until('all have started', () => started.length === 40)
  end.open()
  await until('all are completed', () => busy.tally.completed === 40)
  // 20 MB by 4 MB at most.
  assert.ok(sent.filter(isCompletion).length >= 5)
  assert.equal(await count(db, 'from leasehold.archive where length(result::text) = 500002'), 40)
})

test('a kind with a small limit does not make the claims of the others small', async (t) => {
  const { lh, worker, undo } = await scene(t)
  await lh.enqueueMany(task, numbers(200))
  const sent = statements(undo)
  const end = gate()
  const handlers = [handle(task, () => end.opened, { concurrency: 200 }), handle(other, () => {}, { concurrency: 1 })]
  const busy = worker(handlers, { concurrency: 300 })
  const started = collect(busy, 'started')
  await until('all have started', () => started.length === 200)
  const claims = sent.filter(isClaim).length
  assert.ok(claims <= 10, `${claims} claims for 200 jobs`)
  end.open()
  await until('all are completed', () => busy.tally.completed === 200)
})

test('only queues with a backlog are marked busy', async (t) => {
  const { lh, db, worker } = await scene(t)
  for (let batch = 0; batch < 3; batch++) await lh.enqueueMany(task, numbers(10_000))
  const busy = worker([handle(task, () => {}), handle(other, () => {})], { concurrency: 20, prefetch: 0 })
  await until('the queue is marked', async () => (await count(db, 'from leasehold.busy where until > now()')) > 0)
  assert.deepEqual((await db.pool.query('select queue from leasehold.busy')).rows, [{ queue: 'task' }])
  await busy.stop()
})

test('a key that is kept for a year keeps its own day, and no other', async (t) => {
  const { lh, db } = await scene(t)
  const remembered = kind<number>('remembered', { keep: '1h', keepKey: '365d' })
  await lh.enqueue(remembered, 1, { idempotencyKey: 'once' })
  await lh.drain([handle(remembered, () => {})])
  const days = () => count(db, "from pg_class where relname ~ '^archive_\\d+$' and relkind = 'r'")
  const before = await days()
  await db.clock.advance('12 days')
  const lane = new Lane(db.pool)
  for (let call = 0; call < 20; call++) await pruneHistory(lane, 0)
  assert.equal(await days(), before - 11)
  assert.equal((await lh.enqueue(remembered, 1, { idempotencyKey: 'once' })).outcome, 'existing')
})

test('a worker stops although the database does not reply', async (t) => {
  const { db, undo } = await scene(t)
  const { hostname, port } = new URL(db.url)
  const proxy = await startFaultyProxy({ host: hostname, port: Number(port) })
  undo.after(() => proxy.stop())
  proxy.freeze()
  const pool = new pg.Pool({ connectionString: proxy.url(db.url) })
  pool.on('error', () => {})
  const lost: Worker = new Leasehold({ pool, log: () => {} }).worker([handle(task, () => {})], { signals: [] })
  const running = lost.run()
  await lost.stop()
  await inTime(running, 'it did not stop')
})
