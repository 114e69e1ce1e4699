// What the jobs of a run in one call take of a worker's slots, and how long the runs are that it claims.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { handleBatch, kind } from '../../src/index.ts'
import type { ClaimedJob } from '../../src/jobs/job.ts'
import { type Handler, inRuns } from '../../src/worker/handler.ts'
import { type HeldClaim, HeldJob } from '../../src/worker/job.ts'
import { hold } from '../../src/worker/runs.ts'
import { Slots } from '../../src/worker/slots.ts'
import { movableClock } from '../support/movable-clock.ts'

const claimed = { kind: 'step', payload: '1', attempt: 1, maxAttempts: 2 } as ClaimedJob

/** Starts a run of so many jobs in one call. */
function startRun(slots: Slots, handler: Handler, length: number): HeldJob[] {
  const run = new Array<ClaimedJob>(length - 1).fill(claimed)
  hold(slots, { ...claimed, run }, (one) => new HeldJob(one, handler, {} as HeldClaim))
  const started: HeldJob[] = []
  for (let job = slots.start(0); job !== undefined; job = slots.startNext(job, 0)) started.push(job)
  assert.equal(started.length, length)
  return started
}

test('the jobs of a run in one call are one line, and do not make runs shorter', (t) => {
  const clock = movableClock(t, { stands: true })
  const handler = inRuns(handleBatch(kind('step'), () => {}, { size: 100 }))
  const slots = new Slots(new Map([['step', handler]]), 1, 1_000)
  for (const job of startRun(slots, handler, 100)) slots.ran(job)
  startRun(slots, handler, 100)
  clock.pass(100)
  slots.demand()
  // 100 ended in 100 ms: a third of that counts for what was before, when nothing had ended.
  assert.equal(slots.runLength, 1 + Math.floor(100 * (1 - Math.exp(-1))))
})

for (const concurrency of [2, undefined]) {
  // With a limit of its own a kind counts what it holds, and without one what it runs.
  test(`a job that falls back leaves its room to others, with a limit of its kind of ${concurrency} calls`, () => {
    const options = concurrency === undefined ? {} : { concurrency }
    const handler = inRuns(handleBatch(kind('step'), () => {}, { size: 4, ...options }))
    const larger = handleBatch(kind('larger'), () => {}, { size: 10 })
    const handlers = new Map([
      ['step', handler],
      ['larger', larger],
    ])
    const slots = new Slots(handlers, 2, 0)
    const state = () => [slots.demand()?.limit, slots.running, slots.holdsRuns]
    assert.deepEqual(state(), [8, 0, false])
    const [first, second, third] = startRun(slots, handler, 3) as [HeldJob, HeldJob, HeldJob]
    assert.deepEqual(state(), [5, 3, false])
    slots.ran(first)
    for (const job of [second, third]) slots.fallBack(job)
    assert.deepEqual(state(), [concurrency === undefined ? 8 : 7, 0, true])
    slots.release(first)
    for (const job of [second, third]) slots.forget(job)
    assert.deepEqual(state(), [8, 0, false])
    const again = startRun(slots, handler, 3)
    for (const job of again) slots.ran(job)
    assert.deepEqual(state(), [concurrency === undefined ? 8 : 5, 0, false])
    for (const job of again) slots.release(job)
    assert.deepEqual(state(), [8, 0, false])
  })
}
