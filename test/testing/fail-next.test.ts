// leasehold/testing: handlers whose next runs fail.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Fatal, handle, handleBatch, InvalidOptionError, kind } from '../../src/index.ts'
import { failNext, runJob, testClock } from '../../src/testing/index.ts'
import { handleRuns, start, workflow } from '../../src/workflow/index.ts'
import { scene } from '../support/worker.ts'

const bill = kind<number>('bill', {}).returns<number>()

test('the next runs fail with the error, and later ones do not', async (t) => {
  const { lh } = await scene(t)
  const clock = await testClock(lh)
  let calls = 0
  const down = new Error('down')
  const handler = failNext(
    handle(bill, ({ input }) => ++calls + input),
    down,
    { times: 2 },
  )
  const { jobId } = await lh.enqueue(bill, 10)
  const { runs } = await clock.drain([handler])
  assert.deepEqual(
    runs.map(({ outcome, error }) => [outcome, error]),
    [
      ['retrying', down],
      ['retrying', down],
      ['completed', undefined],
    ],
  )
  assert.deepEqual([calls, (await lh.get(jobId))!.result], [1, 11])
})

test('with `after` the handler has done its work, and its outcome is lost', async () => {
  let calls = 0
  const handler = failNext(
    handle(bill, () => ++calls),
    new Fatal('lost'),
    { when: 'after' },
  )
  const first = await runJob(handler, 1)
  assert.ok(first.outcome === 'dead_letter' && first.reason === 'fatal')
  assert.equal((await runJob(handler, 1)).outcome, 'completed')
  assert.equal(calls, 2)
})

test('a call of a batch handler fails as a whole, and the slice of a run is retried', async (t) => {
  const { lh } = await scene(t)
  const clock = await testClock(lh)
  const batch = failNext(handleBatch(bill, () => {}))
  const flow = workflow<null, string>('flow', {}, async (run) => run.step('one', () => 'one'))
  const runs = failNext(handleRuns(flow), undefined, { when: 'after' })
  await lh.enqueueMany(bill, [{ input: 1 }, { input: 2 }])
  const { jobId } = await start(lh, flow, null)
  const { completed, retrying } = await clock.drain([batch, runs])
  assert.deepEqual([completed, retrying], [3, 3])
  assert.equal((await lh.get(jobId))!.result, 'one')
})

test('with `after` also what a batch handler has decided is lost', async (t) => {
  const { lh } = await scene(t)
  const clock = await testClock(lh)
  let calls = 0
  const batch = handleBatch(bill, (jobs) => {
    calls++
    for (const job of jobs) job.succeed(job.input)
  })
  await lh.enqueueMany(bill, [{ input: 1 }, { input: 2 }])
  const { completed, retrying } = await clock.drain([failNext(batch, new Error('lost'), { when: 'after' })])
  assert.deepEqual([completed, retrying], [2, 2])
  assert.ok(calls > 1)
  const alone = failNext(batch, new Error('lost'), { when: 'after' })
  assert.deepEqual([(await runJob(alone, 1)).outcome, (await runJob(alone, 1)).outcome], ['retrying', 'completed'])
})

test('wrong arguments are refused', () => {
  const handler = handle(bill, () => 1)
  assert.throws(() => failNext(bill as never), InvalidOptionError)
  assert.throws(() => failNext(handler, null, { times: 0 }), InvalidOptionError)
  assert.throws(() => failNext(handler, null, { when: 'later' as 'after' }), InvalidOptionError)
  assert.throws(() => failNext(handler, null, { time: 1 } as object), /did you mean times\?/)
})
