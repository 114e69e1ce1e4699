// The outcome of a job, by the result or error of its handler.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { Cancel, Fatal, type JobId, RetryAfter, Snooze } from '../../src/index.ts'
import { gate } from '../support/gate.ts'
import { movableTimers } from '../support/movable-clock.ts'
import { jobRow } from '../support/queue.ts'
import { collect, count, doing, next, nothingHeld, type Scene } from '../support/worker.ts'

/** Milliseconds from the end of the last failed attempt to the next, as stored. */
async function storedDelay({ db }: Scene, jobId: JobId): Promise<number> {
  const { rows } = await db.pool.query(
    `select extract(epoch from j.available_at - a.ended_at) * 1000 as ms
       from leasehold.job j join leasehold.job_attempt a on a.job_id = j.id
      where j.id = $1 order by a.ended_at desc limit 1`,
    [jobId],
  )
  return Number(rows[0].ms)
}

test('Fatal is a dead letter at once, with attempts left', async (t) => {
  const { busy, add, lh } = await doing(t, () => {
    throw new Fatal('never again', { cause: new Error('deeper') })
  })
  const dead = next(busy, 'dead_letter')
  const jobId = await add()
  const { reason, error } = await dead
  assert.equal(reason, 'fatal')
  assert.ok(error instanceof Fatal)
  const job = (await lh.get(jobId))!
  assert.deepEqual([job.status, job.reason, job.attempts, job.maxAttempts], ['dead_letter', 'fatal', 1, 5])
  assert.deepEqual([job.lastError?.message, job.lastError?.cause?.message], ['never again', 'deeper'])
})

test('RetryAfter is a failed attempt, retried after exactly that delay', async (t) => {
  const setting = await doing(t, () => {
    throw new RetryAfter('10m')
  })
  const retrying = next(setting.busy, 'retrying')
  const jobId = await setting.add()
  assert.equal((await retrying).delayMs, 600_000)
  const { label, attempts } = await jobRow(setting.db, jobId)
  assert.deepEqual([label, attempts], ['retrying', 1])
  assert.equal(await storedDelay(setting, jobId), 600_000)
})

test('Snooze spends no attempt, however often', async (t) => {
  const { busy, add, db } = await doing(
    t,
    ({ generation, attempt }) => {
      assert.equal(attempt, 1)
      if (generation < 4) throw new Snooze(0)
    },
    { kind: { maxAttempts: 1 } },
  )
  const [snoozed, completed] = [collect(busy, 'snoozed'), next(busy, 'completed')]
  const jobId = await add()
  assert.equal((await completed).generation, 4)
  assert.equal(snoozed.length, 3)
  const { status, attempts } = await jobRow(db, jobId)
  assert.deepEqual([status, attempts], ['completed', 1])
  assert.equal(await count(db, 'from leasehold.job_attempt'), 3)
})

test('Snooze postpones the job by its delay', async (t) => {
  const { busy, add, db } = await doing(t, () => {
    throw new Snooze('1d')
  })
  const snoozed = next(busy, 'snoozed')
  const jobId = await add()
  assert.equal((await snoozed).delayMs, 86_400_000)
  const { label, attempts, available_at, created_at } = await jobRow(db, jobId)
  assert.deepEqual([label, attempts], ['scheduled', 0])
  assert.ok((available_at as Date).getTime() - (created_at as Date).getTime() >= 86_400_000)
})

test('Cancel ends the job as cancelled', async (t) => {
  const { busy, add, db } = await doing(t, () => {
    throw new Cancel('no longer wanted')
  })
  const cancelled = next(busy, 'cancelled')
  const jobId = await add()
  await cancelled
  assert.equal((await jobRow(db, jobId)).status, 'cancelled')
})

test('any other error doubles the wait, a quarter of it random, until attempts are used up', async (t) => {
  const setting = await doing(
    t,
    ({ attempt }) => {
      throw new TypeError(`attempt ${attempt}`)
    },
    { kind: { maxAttempts: 4, backoff: { first: '10m', max: '30m' } } },
  )
  const { busy, db } = setting
  const dead = next(busy, 'dead_letter')
  let retrying = next(busy, 'retrying')
  const jobId = await setting.add()
  for (const fullMs of [600_000, 1_200_000, 1_800_000]) {
    const { delayMs, error } = await retrying
    assert.ok(error instanceof TypeError)
    assert.ok(delayMs >= 0.75 * fullMs && delayMs <= fullMs, `${delayMs} of ${fullMs}`)
    assert.ok(Math.abs((await storedDelay(setting, jobId)) - delayMs) < 0.01)
    retrying = next(busy, 'retrying')
    await db.clock.advance('1 hour')
  }
  assert.equal((await dead).reason, 'attempts_exhausted')
  const { reason, attempts, lease_generation, last_error } = await jobRow(db, jobId)
  assert.deepEqual([reason, attempts, lease_generation], ['attempts_exhausted', 4, '4'])
  assert.equal((last_error as { message: string }).message, 'attempt 4')
  assert.deepEqual(
    { ...busy.tally },
    {
      completed: 0,
      retrying: 3,
      deadLetters: 1,
      snoozed: 0,
      cancelled: 0,
      released: 0,
      refused: 0,
      concurrentModifications: 0,
    },
  )
})

test('a handler that runs too long is aborted, and has failed when it throws', async (t) => {
  const { busy, add, db } = await doing(
    t,
    async ({ signal }) => {
      await new Promise((resolve) => signal.addEventListener('abort', resolve))
      signal.throwIfAborted()
    },
    { kind: { timeout: '50ms', maxAttempts: 1 } },
  )
  const [aborted, dead] = [next(busy, 'aborted'), next(busy, 'dead_letter')]
  const jobId = await add()
  assert.equal((await aborted).reason, 'timed_out')
  await dead
  assert.equal(((await jobRow(db, jobId)).last_error as { code: string }).code, 'TIMED_OUT')
})

test('a handler that ignores its signal has failed all the same, and its late result is not recorded', async (t) => {
  const clock = movableTimers(t)
  const [stubborn, returned] = [gate(), gate()]
  const { busy, add, db } = await doing(
    t,
    async ({ attempt }) => {
      if (attempt > 1) return 'in time'
      await stubborn.opened
      returned.open()
      return 'too late'
    },
    { kind: { timeout: '50ms', backoff: { first: '1h' } }, worker: { concurrency: 1 } },
  )
  const reported = [collect(busy, 'completed'), collect(busy, 'refused'), collect(busy, 'unknown')]
  const [started, retrying] = [next(busy, 'started'), next(busy, 'retrying')]
  const jobId = await add()
  await started
  clock.pass(51)
  clock.pass(5_001) // A handler has so long to end by itself.
  assert.equal(((await retrying).error as { code: string }).code, 'TIMED_OUT')
  const failed = await jobRow(db, jobId)
  stubborn.open()
  await returned.opened
  // Its slot is free, and its result was dropped: a job later nothing of it is recorded.
  const completed = next(busy, 'completed', (job) => job.jobId === jobId)
  assert.deepEqual(await jobRow(db, jobId), failed)
  await db.clock.advance('2 hours')
  await completed
  assert.equal((await jobRow(db, jobId)).result, 'in time')
  assert.deepEqual(
    reported.map((events) => events.length),
    [1, 0, 0],
  )
})

test('a progress note is visible while the job runs', async (t) => {
  const [noted, seen] = [gate(), gate()]
  const { add, lh, busy, db } = await doing(t, async (job) => {
    await job.progress({ step: 1 })
    await job.progress({ step: 2 })
    noted.open()
    await seen.opened
  })
  const completed = next(busy, 'completed')
  const jobId = await add()
  await noted.opened
  const { status, progress } = (await lh.get(jobId))!
  assert.deepEqual([status, progress], ['processing', { step: 2 }])
  seen.open()
  await completed
  await busy.stop()
  await nothingHeld(db)
})

/** Cancels running jobs one after the other. */
async function cancelWhileRunning(t: TestContext, listen: boolean, times: number): Promise<void> {
  const { busy, add, lh } = await doing(
    t,
    ({ signal }) => new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
    { connection: { listen } },
  )
  if (listen) await next(busy, 'wakeup', ({ by }) => by === 'listen')
  for (let time = 0; time < times; time++) {
    const [started, cancelled] = [next(busy, 'started'), next(busy, 'cancelled')]
    const jobId = await add()
    await started
    assert.equal(await lh.cancel(jobId), 'requested')
    assert.equal((await cancelled).jobId, jobId)
  }
}

test('a worker that listens aborts a cancelled handler at once', async (t) => {
  // For the worker no time passes, so after the first claim it looks only for cancels it is notified of.
  const standing = performance.now()
  t.mock.method(performance, 'now', () => standing)
  await cancelWhileRunning(t, true, 3)
})

test('a worker that does not listen finds a cancelled handler by polling', async (t) => {
  await cancelWhileRunning(t, false, 1)
})
