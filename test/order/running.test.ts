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

/**
 * Jobs 1 to 200 of one key. The worker shows that it is quick, so that it claims runs. Then it stops in the first job that has three
 * others of its run behind it, and `at` is the number of that job.
 */
async function inTheMiddle(
  t: TestContext,
  options: WorkerOptions = {},
  work: (job: Job<number>, at: number) => unknown = () => {},
) {
  const setting = await scene(t)
  const { db, lh } = setting
  await lh.configure([queue('step', { ordered: true })])
  const [arrived, go] = [gate(), gate()]
  const order: number[] = []
  const ids = (
    await lh.enqueueMany(
      step,
      upTo(200).map((input) => ({ input, partitionKey: 'k' })),
    )
  ).map(({ jobId }) => jobId)
  const behind = () => count(db, 'from leasehold.job where claim_id is not null')
  let at = Number.POSITIVE_INFINITY
  const run = handle(step, async (job) => {
    order.push(job.input)
    const isFirst = at === Number.POSITIVE_INFINITY && job.input > 20 && order.length === job.input
    if (isFirst && (await count(db, `from leasehold.job where claim_id is not null and id > ${job.id}`)) >= 3) {
      at = job.input
      arrived.open()
      await go.opened
    }
    return work(job, at)
  })
  const start = (): Worker => setting.worker([run], { concurrency: 3, poll: 50, ...options })
  const worker = start()
  await arrived.opened
  return { ...setting, at, order, ids, worker, start, go, behind }
}

const upTo = (last: number) => Array.from({ length: last }, (_, n) => n + 1)

test('a job behind in a run is cancelled at once, and those behind it run', async (t) => {
  const { db, lh, at, ids, order, go, worker } = await inTheMiddle(t)
  assert.equal(await lh.cancel(ids[at + 1]!), 'requested')
  await until('it is cancelled', async () => (await countByStatus(db)).cancelled === 1)
  assert.equal(order.length, at, 'while the one in front of it still runs')
  go.open()
  await until('the others are completed', () => worker.tally.completed === 199)
  assert.deepEqual(
    order,
    upTo(200).filter((n) => n !== at + 2),
  )
  await nothingLeft(db)
})

test('a pause returns the rest of a run, and the one that runs goes on', async (t) => {
  const { db, lh, at, order, go, behind, worker } = await inTheMiddle(t)
  await lh.pause({ queue: 'step' })
  await until('the rest is returned', async () => (await behind()) === 1)
  assert.deepEqual(await broken(db), [])
  go.open()
  await until('the one that ran is completed', () => worker.tally.completed === at)
  assert.equal(await behind(), 0)
  assert.deepEqual(order, upTo(at))
  await lh.resume({ queue: 'step' })
  await until('all are completed', () => worker.tally.completed === 200)
  assert.deepEqual(order, upTo(200))
  assert.equal(await count(db, 'from leasehold.archive where attempts <> 1'), 0, 'no attempt was spent')
})

test('a worker that stops in the middle of a run finishes its job, and releases the rest', async (t) => {
  const { db, at, order, go, worker, start } = await inTheMiddle(t)
  const stopped = worker.stop({ grace: '60s' })
  go.open()
  await stopped
  assert.deepEqual(order, upTo(at))
  await nothingHeld(db)
  assert.deepEqual(await broken(db), [])
  const next = start()
  await until('the rest is completed', () => next.tally.completed === 200 - at)
  assert.deepEqual(order, upTo(200))
  await nothingLeft(db)
})

test('a worker that stops without grace releases its job with the rest of the run', async (t) => {
  const { db, at, order, worker, start, go } = await inTheMiddle(t)
  await worker.stop({ grace: 0 })
  assert.deepEqual(await broken(db), [])
  await nothingHeld(db)
  const next = start()
  await until('the rest is completed', () => next.tally.completed === 201 - at)
  assert.deepEqual(order, [...upTo(at), ...upTo(200).slice(at - 1)])
  go.open()
})

test('jobs that are completed in their own transactions run one after the other', async (t) => {
  const { db, order, go, worker } = await inTheMiddle(t, {}, async (job, at) => {
    if (job.input >= at) await withTransaction(db.pool, (tx) => job.complete(tx))
  })
  go.open()
  await until('all are completed', () => worker.tally.completed === 200)
  assert.deepEqual(order, upTo(200))
  await until(
    'a claim has looked at the emptied key',
    async () => (await count(db, 'from leasehold.order_check')) === 0,
  )
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
