// Batch handlers: one call for several jobs, each of which keeps its own lease, signal, attempt and outcome.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  type BatchJob,
  Cancel,
  Fatal,
  handleBatch,
  kind,
  queue,
  RetryAfter,
  Snooze,
  withTransaction,
} from '../../src/index.ts'
import { gate } from '../support/gate.ts'
import { movableTimers } from '../support/movable-clock.ts'
import { broken, nothingLeft } from '../support/order.ts'
import { countByStatus } from '../support/queue.ts'
import { until } from '../support/until.ts'
import { codeOf, collect, count, next, nothingHeld, scene } from '../support/worker.ts'

const task = kind<number>('task', { backoff: { first: 1, max: 1 } })
const numbers = (length: number) => Array.from({ length }, (_, input) => ({ input }))

test('each job of a batch has its own outcome, and what has none has that of the call', async (t) => {
  const { lh, worker, log } = await scene(t)
  const outcome = kind<string>('outcome', { maxAttempts: 1 }).returns<string>()
  const names = ['result', 'fatal', 'failed', 'cancelled', 'nothing']
  const jobs = await lh.enqueueMany(
    outcome,
    [...names, 'snoozed', 'later'].map((input) => ({ input })),
  )
  const of = handleBatch(outcome, (batch) => {
    for (const job of batch) {
      if (job.input === 'result') job.succeed('stored')
      if (job.input === 'fatal') job.fail(new Fatal('never'))
      if (job.input === 'failed') job.fail(new Error('not this time'))
      if (job.input === 'cancelled') job.fail(new Cancel('no longer wanted'))
      if (job.input === 'snoozed') job.fail(new Snooze('1h'))
      if (job.input === 'later') job.fail(new RetryAfter('1h'))
      job.succeed('too late')
    }
  })
  const events = worker([of])
  await until('all have ended', () => events.tally.completed + events.tally.deadLetters + events.tally.snoozed >= 6)
  const [result, fatal, failed, cancelled, nothing, snoozed] = await Promise.all(jobs.map(({ jobId }) => lh.get(jobId)))
  assert.deepEqual([result!.status, result!.result], ['completed', 'stored'])
  assert.deepEqual([fatal!.status, fatal!.reason], ['dead_letter', 'fatal'])
  assert.deepEqual([failed!.status, failed!.reason], ['dead_letter', 'attempts_exhausted'])
  assert.deepEqual([cancelled!.status, cancelled!.reason], ['cancelled', 'no longer wanted'])
  assert.deepEqual([nothing!.status, nothing!.result], ['completed', 'too late'])
  assert.deepEqual([snoozed!.status, snoozed!.attempts], ['pending', 0])
  assert.equal(log.filter(({ level }) => level === 'error').length, 3)
})

test('an error that a batch handler throws fails the jobs that have no outcome, and no other', async (t) => {
  const { lh, db } = await scene(t)
  const once = kind<number>('once', { maxAttempts: 1 })
  await lh.enqueueMany(once, numbers(4))
  const tally = await lh.drain([
    handleBatch(once, async (jobs) => {
      jobs[0]!.succeed()
      await withTransaction(db.pool, (tx) => jobs[1]!.complete(tx))
      throw new Error('the rest is lost')
    }),
  ])
  assert.deepEqual([tally.completed, tally.deadLetters], [2, 2])
})

test('what a batch handler returns is no outcome', async (t) => {
  const { lh } = await scene(t)
  const once = kind<number>('once', { maxAttempts: 1 })
  const [job] = await lh.enqueueMany(once, numbers(1))
  const mistaken = (async () => ['ok']) as unknown as () => Promise<void>
  assert.equal((await lh.drain([handleBatch(once, mistaken)])).deadLetters, 1)
  assert.match(JSON.stringify((await lh.get(job!.jobId))!.lastError), /job\.succeed\(result\)/)
})

test('a cancellation aborts one job of a batch, and the signal of the call only when all are aborted', async (t) => {
  const { lh, worker } = await scene(t)
  const ids = (await lh.enqueueMany(task, numbers(2))).map(({ jobId }) => jobId)
  const [arrived, go] = [gate(), gate()]
  let call: { jobs: readonly BatchJob<number>[]; signal: AbortSignal } | undefined
  const busy = worker([
    handleBatch(task, async (jobs, signal) => {
      call = { jobs, signal }
      arrived.open()
      await go.opened
    }),
  ])
  await arrived.opened
  const aborted = next(busy, 'aborted')
  await lh.cancel(ids[0]!)
  await aborted
  assert.deepEqual([call!.jobs.map(({ signal }) => signal.aborted), call!.signal.aborted], [[true, false], false])
  const second = next(busy, 'aborted')
  await lh.cancel(ids[1]!)
  await second
  assert.equal(call!.signal.aborted, true)
  assert.equal((call!.signal.reason as { code: string }).code, 'CANCEL_REQUESTED')
  go.open()
})

test('a job of a batch whose lease was lost is refused, and the others are completed', async (t) => {
  const { db, lh, worker } = await scene(t)
  const ids = (await lh.enqueueMany(task, numbers(3))).map(({ jobId }) => jobId)
  const busy = worker([
    handleBatch(
      task,
      async (jobs) => {
        const stolen = jobs.find(({ id }) => id === ids[1])
        if (stolen === undefined || stolen.attempt > 1) return
        // As the sweep does it, and another worker's claim after that.
        await db.pool.query('update leasehold.job set claim_id = 7 where id = $1', [stolen.id])
      },
      { size: 3 },
    ),
  ])
  const [refused, completed] = [collect(busy, 'refused'), collect(busy, 'completed')]
  await until('two are completed', () => completed.length === 2 && refused.length === 1)
  assert.deepEqual(completed.map((event) => event!.jobId).sort(), [ids[0], ids[2]])
  assert.equal(refused[0]!.jobId, ids[1])
  assert.equal(await count(db, 'from leasehold.job where claim_id = 7'), 1, 'it is as the other worker has it')
})

test('the jobs of a batch that takes too long are aborted and fail, and the slot is free', async (t) => {
  const clock = movableTimers(t)
  const { lh, worker } = await scene(t)
  const slow = kind<number>('slow', { timeout: '20ms', maxAttempts: 1 })
  const jobs = await lh.enqueueMany(slow, numbers(2))
  const signals: AbortSignal[] = []
  const busy = worker(
    [
      handleBatch(slow, async (_, signal) => {
        signals.push(signal)
        if (signals.length > 1) return
        await new Promise(() => {}) // It ignores its signal, and never returns.
      }),
    ],
    { concurrency: 1 },
  )
  await until('the call has begun', () => signals.length === 1)
  clock.pass(21)
  clock.pass(5_001) // A handler has so long to end by itself.
  await until('both are dead letters', () => busy.tally.deadLetters === 2)
  assert.equal((await lh.get(jobs[0]!.jobId))!.lastError!.name, 'TimedOutError')
  assert.equal(signals[0]!.aborted, true)
  await lh.enqueue(slow, 3)
  await until('the next is completed', () => busy.tally.completed === 1)
})

test('an input that no longer fits its schema leaves the batch alone', async (t) => {
  const { lh, db } = await scene(t)
  const even = kind('even', {
    input: {
      '~standard': {
        version: 1,
        vendor: 'test',
        validate: async (value: unknown) => {
          // The batch is closed long before the last input is parsed.
          for (let turn = 0; turn < Number(value); turn++) await new Promise((resolve) => setImmediate(resolve))
          return Number(value) % 2 === 0 ? { value: Number(value) } : { issues: [{ message: 'odd' }] }
        },
      },
    },
  })
  await lh.enqueueMany(even, [{ input: 0 }, { input: 2 }, { input: 20 }])
  await db.pool.query("update leasehold.job set payload = '3' where payload = '2'")
  const calls: unknown[][] = []
  const tally = await lh.drain([
    handleBatch(even, (jobs) => {
      calls.push(jobs.map(({ input }) => input))
    }),
  ])
  assert.deepEqual([tally.completed, tally.deadLetters, calls], [2, 1, [[0, 20]]])
})

test('in an ordered queue a batch has jobs of many keys, one of each, and order is kept', async (t) => {
  const { db, lh, worker } = await scene(t)
  const step = kind<number>('step', { ordered: true, backoff: { first: 1, max: 1 } })
  await lh.configure([queue('step', { ordered: true })])
  const [keys, each] = [20, 30]
  await lh.enqueueMany(
    step,
    Array.from({ length: keys * each }, (_, n) => ({ input: Math.floor(n / keys), partitionKey: `k${n % keys}` })),
  )
  const order = new Map<string, number[]>()
  let largest = 0
  const busy = worker(
    [
      handleBatch(step, async (jobs) => {
        const inCall = jobs.map(({ partitionKey }) => partitionKey!)
        assert.equal(new Set(inCall).size, inCall.length, 'no key twice')
        largest = Math.max(largest, jobs.length)
        await new Promise((resolve) => setImmediate(resolve))
        for (const job of jobs) {
          if (job.input === 7 && job.attempt === 1) job.fail(new Error('once'))
          else order.set(job.partitionKey!, [...(order.get(job.partitionKey!) ?? []), job.input])
        }
      }),
    ],
    { concurrency: 3, poll: 20 },
  )
  await until('all are completed', () => busy.tally.completed === keys * each)
  for (const steps of order.values())
    assert.deepEqual(
      steps,
      Array.from({ length: each }, (_, n) => n),
    )
  assert.equal(largest, keys)
  assert.deepEqual(await broken(db), [])
  await nothingLeft(db)
})

test('a worker that stops releases the jobs of a batch that does not end', async (t) => {
  const { db, lh, worker } = await scene(t)
  await lh.enqueueMany(task, numbers(5))
  const arrived = gate()
  const busy = worker([
    handleBatch(task, async (jobs) => {
      jobs[0]!.succeed()
      arrived.open()
      await new Promise(() => {})
    }),
  ])
  await arrived.opened
  await until('one is completed', () => busy.tally.completed === 1)
  await busy.stop({ grace: 0 })
  assert.deepEqual(await countByStatus(db), { completed: 1, pending: 4 })
  await nothingHeld(db)
})

test('a batch handler that cannot work is refused', async () => {
  const wrong = <T>(value: unknown) => value as T
  for (const call of [
    () => handleBatch(wrong<typeof task>('task'), () => {}),
    () => handleBatch(task, wrong(undefined)),
    () => handleBatch(task, () => {}, { size: 0 }),
    () => handleBatch(task, () => {}, { size: 100_000 }),
    () => handleBatch(task, () => {}, wrong({ sise: 3 })),
  ]) {
    assert.equal(await codeOf(call), 'INVALID_OPTION', String(call))
  }
})
