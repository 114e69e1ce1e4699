// Runs in a worker that lives: what operators, pauses and a stop do to the jobs behind the one that runs.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { handle, type Job, kind, queue, type Worker, type WorkerOptions, withTransaction } from '../../src/index.ts'
import { gate } from '../support/gate.ts'
import { broken, nothingLeft } from '../support/order.ts'
import { countByStatus } from '../support/queue.ts'
import { until } from '../support/until.ts'
import { count, nothingHeld, scene } from '../support/worker.ts'

const step = kind<number>('step', { ordered: true, backoff: { first: 1, max: 1 } })

/** Jobs 1 to `jobs` of one key. The worker has shown that it is quick, so that it claims runs; then it stops at `at`. */
async function inTheMiddle(
  t: TestContext,
  { jobs = 200, at = 100, ...options }: WorkerOptions & { jobs?: number; at?: number } = {},
  work: (job: Job<number>) => unknown = () => {},
) {
  const setting = await scene(t)
  const { db, lh } = setting
  await lh.configure([queue('step', { ordered: true })])
  const [arrived, go] = [gate(), gate()]
  const order: number[] = []
  const ids = (
    await lh.enqueueMany(
      step,
      Array.from({ length: jobs }, (_, n) => ({ input: n + 1, partitionKey: 'k' })),
    )
  ).map(({ jobId }) => jobId)
  const run = handle(step, async (job) => {
    order.push(job.input)
    if (job.input === at && order.filter((n) => n === at).length === 1) {
      arrived.open()
      await go.opened
    }
    return work(job)
  })
  const start = (): Worker => setting.worker([run], { concurrency: 3, poll: 50, ...options })
  const worker = start()
  await arrived.opened
  const behind = () => count(db, 'from leasehold.job where claim_id is not null')
  assert.ok((await behind()) > 1, 'some are claimed behind the one that runs')
  return { ...setting, order, ids, worker, start, go, behind }
}

const upTo = (last: number) => Array.from({ length: last }, (_, n) => n + 1)

test('a job behind in a run is cancelled at once, and those behind it run', async (t) => {
  const { db, lh, ids, order, go, worker } = await inTheMiddle(t)
  assert.equal(await lh.cancel(ids[101]!), 'requested')
  await until('it is cancelled', async () => (await countByStatus(db)).cancelled === 1)
  assert.equal(order.length, 100, 'while the one in front of it still runs')
  go.open()
  await until('the others are completed', () => worker.tally.completed === 199)
  assert.deepEqual(
    order,
    upTo(200).filter((n) => n !== 102),
  )
  await nothingLeft(db)
})

test('a pause returns the rest of a run, and the one that runs goes on', async (t) => {
  const { db, lh, order, go, behind, worker } = await inTheMiddle(t)
  await lh.pause({ queue: 'step' })
  await until('the rest is returned', async () => (await behind()) === 1)
  assert.deepEqual(await broken(db), [])
  go.open()
  await until('the one that ran is completed', () => worker.tally.completed === 100)
  assert.equal(await behind(), 0)
  assert.deepEqual(order, upTo(100))
  await lh.resume({ queue: 'step' })
  await until('all are completed', () => worker.tally.completed === 200)
  assert.deepEqual(order, upTo(200))
  assert.equal(await count(db, 'from leasehold.archive where attempts <> 1'), 0, 'no attempt was spent')
})

test('a worker that stops in the middle of a run finishes its job, and releases the rest', async (t) => {
  const { db, order, go, worker, start } = await inTheMiddle(t)
  const stopped = worker.stop({ grace: '60s' })
  go.open()
  await stopped
  assert.deepEqual(order, upTo(100))
  await nothingHeld(db)
  assert.deepEqual(await broken(db), [])
  const next = start()
  await until('the rest is completed', () => next.tally.completed === 100)
  assert.deepEqual(order, upTo(200))
  await nothingLeft(db)
})

test('a worker that stops without grace releases its job with the rest of the run', async (t) => {
  const { db, order, worker, start, go } = await inTheMiddle(t)
  await worker.stop({ grace: 0 })
  assert.deepEqual(await broken(db), [])
  await nothingHeld(db)
  const next = start()
  await until('the rest is completed', () => next.tally.completed === 101)
  assert.deepEqual(order, [...upTo(100), ...upTo(200).slice(99)])
  go.open()
})

test('jobs that are completed in their own transactions run one after the other', async (t) => {
  const { db, order, go, worker } = await inTheMiddle(t, { jobs: 60, at: 40 }, async (job) => {
    if (job.input >= 40) await withTransaction(db.pool, (tx) => job.complete(tx))
  })
  go.open()
  await until('all are completed', () => worker.tally.completed === 60)
  assert.deepEqual(order, upTo(60))
  await nothingLeft(db)
})

test('jobs of a run whose lease expires while its first job runs start in order, and none is lost', async (t) => {
  const { db, order, go } = await inTheMiddle(t, { lease: '30s' })
  await db.clock.advance('31 s')
  go.open()
  await until('all are completed', async () => (await countByStatus(db)).completed === 200)
  assert.deepEqual([...new Set(order)], upTo(200), 'each for the first time')
  assert.deepEqual(await broken(db), [])
})
