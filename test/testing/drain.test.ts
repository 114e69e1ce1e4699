// leasehold/testing: drain() that steps over delays and retries, and workers that follow the moved clock.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { connectionOf } from '../../src/db/connection.ts'
import { Fatal, handle, InvalidOptionError, kind, queue, Snooze } from '../../src/index.ts'
import { testClock } from '../../src/testing/index.ts'
import { stepOver } from '../../src/testing/step-over.ts'
import { handleRuns, start, workflow } from '../../src/workflow/index.ts'
import { count, next, scene } from '../support/worker.ts'

const HOUR_MS = 3_600_000

test('drain() steps over delays and backoff, and returns what ran', async (t) => {
  const { lh } = await scene(t)
  const clock = await testClock(lh)
  const bill = kind<string>('bill', { maxAttempts: 3, backoff: { first: '1h', max: '1d' } })
  const down = new Error('down')
  const handler = handle(bill, ({ input, attempt }) => {
    if (input === 'flaky' && attempt < 3) throw down
    if (input === 'broken') throw down
    if (input === 'wrong') throw new Fatal('no such account')
  })
  for (const input of ['flaky', 'broken', 'wrong']) await lh.enqueue(bill, input)
  await lh.enqueue(bill, 'later', { delay: '30d' })
  const before = await clock.now()
  const { runs, completed, retrying, deadLetters } = await clock.drain([handler])
  assert.deepEqual([completed, retrying, deadLetters], [2, 4, 2])
  const [first, last] = [runs[0]!, runs.at(-1)!]
  assert.deepEqual(first, { jobId: first.jobId, kind: 'bill', attempt: 1, outcome: 'retrying', error: down })
  assert.deepEqual([last.outcome, last.error], ['completed', undefined])
  assert.equal(runs.length, 8)
  assert.ok((await clock.now()).getTime() - before.getTime() >= 30 * 24 * HOUR_MS)
})

test('nothing to do, or nothing that has a handler here, is drained at once', async (t) => {
  const { lh } = await scene(t)
  const clock = await testClock(lh)
  const [bill, mail] = [kind<null>('bill', {}), kind<null>('mail', {})]
  const handlers = [handle(bill, () => {})]
  assert.deepEqual((await clock.drain(handlers)).runs, [])
  await lh.enqueue(mail, null)
  await lh.enqueue(mail, null, { delay: '1h' })
  const before = await clock.now()
  assert.deepEqual((await clock.drain(handlers)).runs, [])
  assert.ok((await clock.now()).getTime() - before.getTime() < HOUR_MS)
})

test('jobs that others hold, of kinds without a handler here, keep their lease', async (t) => {
  const { lh, leasehold } = await scene(t)
  const clock = await testClock(lh)
  const [bill, mail] = [kind<null>('bill', {}), kind<null>('mail', {})]
  await lh.enqueue(mail, null)
  const [held] = await leasehold().claim(mail, { lease: '1h' })
  await lh.enqueue(bill, null, { delay: '10m' })
  const before = await clock.now()
  assert.equal((await clock.drain([handle(bill, () => {})])).completed, 1)
  assert.ok((await clock.now()).getTime() - before.getTime() < HOUR_MS)
  await held!.complete(null)
})

test('a job that becomes ready while the clock may not be moved is run', async (t) => {
  const { lh, db } = await scene(t)
  const clock = await testClock(lh)
  const bill = kind<null>('bill', {})
  const handlers = [handle(bill, () => {})]
  let calls = 0
  const work = async () => {
    if (++calls === 1) await lh.enqueue(bill, null)
    return calls === 1 ? 0 : (await lh.drain(handlers)).completed
  }
  const connection = connectionOf('test', lh)
  await stepOver({ connection, clock, handlers, atMostMs: 0, work, isOver: async () => false })
  assert.equal(await count(db, `from leasehold.jobs where status = 'completed'`), 1)
})

test('a job that enqueues itself every day runs once for each day of `atMost`', async (t) => {
  const { lh } = await scene(t)
  const clock = await testClock(lh)
  const report = kind<number>('report', {})
  const handler = handle(report, async ({ input }) => {
    await lh.enqueue(report, input + 1, { delay: '24h', idempotencyKey: `day ${input + 1}` })
  })
  await lh.enqueue(report, 0)
  const { runs } = await clock.drain([handler], { atMost: '156h' })
  assert.equal(runs.length, 7) // Today's, and six more.
  assert.deepEqual((await lh.list({ status: 'pending' })).length, 1)
})

test('handlers that never end enqueueing are stopped, with an error that names the kind', async (t) => {
  const { lh } = await scene(t)
  const clock = await testClock(lh)
  const [now, later, sleepy] = [kind<null>('now', {}), kind<null>('later', {}), kind<null>('sleepy', {})]
  const handlers = [
    handle(now, async () => void (await lh.enqueue(now, null))),
    handle(later, async () => void (await lh.enqueue(later, null, { delay: '1s' }))),
    handle(sleepy, () => {
      throw new Snooze('1s')
    }),
  ]
  for (const [own, pattern] of [
    [later, /run 5 jobs, and more are due: "later" completed [56] times.*`atMost`/],
    [sleepy, /"sleepy" snoozed \d times/],
    [now, /"now" completed \d+ times/],
  ] as const) {
    const handler = handlers.find(({ kind }) => kind.name === own.name)!
    await lh.enqueue(own, null)
    await assert.rejects(clock.drain([handler], { maxRuns: 5 }), (error: Error) => {
      assert.equal(error.name, 'AssertionError')
      assert.match(error.message, pattern)
      return true
    })
  }
})

test('jobs of an ordered key keep their order over retries', async (t) => {
  const { lh } = await scene(t)
  const clock = await testClock(lh)
  const step = kind<number>('step', { ordered: true, backoff: { first: '1d', max: '1d' } })
  await lh.configure([queue('step', { ordered: true }), step])
  for (const n of [1, 2, 3]) await lh.enqueue(step, n, { partitionKey: 'a' })
  const done: number[] = []
  const handler = handle(step, ({ input, attempt }) => {
    if (input < 3 && attempt < 3) throw new Error('not yet')
    done.push(input)
  })
  const { runs } = await clock.drain([handler])
  assert.deepEqual(done, [1, 2, 3])
  assert.equal(runs.length, 7)
})

test('runs of workflows and the jobs that they start are drained together', async (t) => {
  const { lh } = await scene(t)
  const clock = await testClock(lh)
  const bill = kind<number>('bill', {}).returns<number>()
  const flow = workflow<null, number>('flow', {}, async (run) => {
    await run.sleep('30d')
    return run.job(bill, 2)
  })
  const { jobId } = await start(lh, flow, null)
  await clock.drain([handleRuns(flow), handle(bill, ({ input }) => input * 10)])
  assert.equal((await lh.get(jobId))!.result, 20)
})

test('a worker that listens runs a job as soon as the clock has moved to it', async (t) => {
  const { lh, worker } = await scene(t)
  const clock = await testClock(lh)
  const bill = kind<null>('bill', {})
  const busy = worker([handle(bill, () => {})], { poll: '10m' })
  await next(busy, 'wakeup', ({ by }) => by === 'listen')
  const done = next(busy, 'completed')
  await lh.enqueue(bill, null, { delay: '7d' })
  await clock.advance('7d')
  await done
})

test('time is moved to a moment, and never back', async (t) => {
  const { lh } = await scene(t)
  const clock = await testClock(lh)
  const newYear = new Date('2090-01-01T00:00:00Z')
  await clock.advanceTo(newYear)
  const now = await clock.now()
  assert.ok(now >= newYear && now.getTime() < newYear.getTime() + 60_000, now.toISOString())
  await assert.rejects(clock.advanceTo(new Date('2089-12-31T00:00:00Z')), (error: InvalidOptionError) => {
    assert.match(error.message, /2089-12-31T00:00:00.000Z has passed, and time never goes back; it is 2090-01-01/)
    return true
  })
  for (const wrong of [new Date(Number.NaN), '2100-01-01' as unknown as Date]) {
    await assert.rejects(clock.advanceTo(wrong), InvalidOptionError)
  }
  await assert.rejects(clock.advance('-1s'), InvalidOptionError)
  assert.ok((await clock.now()) >= now)
})

test('wrong options are refused', async (t) => {
  const { lh } = await scene(t)
  const clock = await testClock(lh)
  const handlers = [handle(kind<null>('bill', {}), () => {})]
  await assert.rejects(clock.drain(handlers, { maxRun: 3 } as object), /did you mean maxRuns\?/)
  await assert.rejects(clock.drain(handlers, { maxRuns: 0 }), InvalidOptionError)
  await assert.rejects(clock.drain([]), InvalidOptionError)
})
