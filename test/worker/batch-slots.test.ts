// How many jobs a call of a batch handler has, and how many calls a worker makes.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type BatchJob, handle, handleBatch, kind } from '../../src/index.ts'
import { gate } from '../support/gate.ts'
import { until } from '../support/until.ts'
import { count, nothingHeld, scene } from '../support/worker.ts'

const task = kind<number>('task', { backoff: { first: 1, max: 1 } })
const numbers = (length: number) => Array.from({ length }, (_, input) => ({ input }))
const inputs = (jobs: readonly BatchJob<number>[]) => jobs.map(({ input }) => input)

test('jobs that are claimed together are handled by one call, and by several if they are more than its size', async (t) => {
  const { lh, db } = await scene(t)
  await lh.enqueueMany(task, numbers(250))
  const calls: number[][] = []
  const tally = await lh.drain([
    handleBatch(task, async (jobs) => {
      calls.push(inputs(jobs))
    }),
  ])
  assert.equal(tally.completed, 250)
  assert.deepEqual(
    calls.map(({ length }) => length),
    [100, 100, 50],
  )
  assert.deepEqual(
    calls.flat().sort((a, b) => a - b),
    numbers(250).map(({ input }) => input),
  )
  await nothingHeld(db)
})

test('a call takes one slot of the worker, and one of the kind', async (t) => {
  const { db, lh, worker } = await scene(t)
  const plain = kind<number>('plain')
  const go = gate()
  const [batches, plains]: [number[], number[]] = [[], []]
  await lh.enqueueMany(task, numbers(70))
  await lh.enqueueMany(plain, numbers(30))
  const busy = worker(
    [
      handleBatch(
        task,
        async (jobs) => {
          batches.push(jobs.length)
          await go.opened
        },
        { size: 20, concurrency: 2 },
      ),
      handle(plain, async ({ input }) => {
        plains.push(input)
        await go.opened
      }),
    ],
    { concurrency: 5 },
  )
  await until('all slots are taken', () => batches.length === 2 && plains.length === 3)
  assert.ok(batches.every((length) => length <= 20))
  assert.ok((await count(db, "from leasehold.job where kind = 'plain' and claim_id is not null")) <= 5)
  go.open()
  await until('all are completed', () => busy.tally.completed === 100)
  assert.equal(
    batches.reduce((sum, length) => sum + length, 0),
    70,
  )
})

test('a call keeps its slot until its last job has ended', async (t) => {
  const { lh, worker } = await scene(t)
  const plain = kind<number>('plain')
  await lh.enqueueMany(task, numbers(4))
  const go = gate()
  let [now, most] = [0, 0]
  const slow = async (jobs: readonly BatchJob<number>[]) => {
    most = Math.max(most, ++now)
    jobs[0]!.succeed()
    await go.opened
    now--
  }
  const busy = worker([handleBatch(task, slow, { size: 2, concurrency: 1 }), handle(plain, () => {})], {
    concurrency: 2,
    poll: 20,
  })
  await until('one of the first call is completed', () => busy.tally.completed === 1)
  await lh.enqueueMany(task, numbers(4))
  // Those are claimed and completed while the call goes on, so its own kind could have been.
  for (let n = 0; n < 3; n++) {
    const { jobId } = await lh.enqueue(plain, n)
    await lh.waitFor(jobId)
  }
  assert.equal(most, 1)
  go.open()
  await until('all are completed', () => busy.tally.completed === 11)
  assert.equal(most, 1)
})

test('runOnce handles as many jobs as its slots take', async (t) => {
  const { lh } = await scene(t)
  await lh.enqueueMany(task, numbers(30))
  const handlers = [handleBatch(task, () => {}, { size: 10 })]
  assert.equal((await lh.runOnce(handlers, { concurrency: 2 })).completed, 20)
  assert.equal((await lh.runOnce(handlers, { concurrency: 2 })).completed, 10)
})
