// A worker whose batch handler takes runs, from claim to completion. What may happen to a run in a call: runs-in-calls.test.ts.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type BatchJob, handleBatch, kind, queue } from '../../src/index.ts'
import { inRuns } from '../../src/worker/handler.ts'
import { nothingLeft } from '../support/order.ts'
import { until } from '../support/until.ts'
import { nothingHeld, scene } from '../support/worker.ts'

const step = kind<number>('step', { queue: 'steps', ordered: true, backoff: { first: 1, max: 1 } })
const JOBS = 400

test('a fast worker gets several jobs of a key in a call, in their order, and no more than its size', async (t) => {
  const { db, lh, worker } = await scene(t)
  await lh.configure([step, queue('steps', { ordered: true })])
  const numbers = Array.from({ length: JOBS }, (_, n) => n)
  await lh.enqueueMany(
    step,
    numbers.map((input) => ({ input, partitionKey: 'k' })),
  )
  const calls: number[][] = []
  const run = (jobs: readonly BatchJob<number>[]) => void calls.push(jobs.map(({ input }) => input))
  const busy = worker([inRuns(handleBatch(step, run, { size: 50 }))])
  await until('all are completed', () => busy.tally.completed === JOBS)
  assert.deepEqual(calls.flat(), numbers)
  const longest = Math.max(...calls.map(({ length }) => length))
  assert.ok(longest > 1 && longest <= 50, `the longest call had ${longest} jobs`)
  await busy.stop()
  await nothingHeld(db)
  await nothingLeft(db)
})
