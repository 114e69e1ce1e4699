// leasehold/testing: the clock of a test database, and runs that go to their end without waiting.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Fatal, handle, InvalidOptionError, kind } from '../../src/index.ts'
import { testClock } from '../../src/testing/index.ts'
import { handleRuns, signal, start, workflow } from '../../src/workflow/index.ts'
import { until } from '../support/until.ts'
import { count, scene } from '../support/worker.ts'

const DAY_MS = 86_400_000

test('the clock moves for every session, by as much as it is advanced', async (t) => {
  const { lh, leasehold } = await scene(t)
  const [clock, other] = [await testClock(lh), await testClock(leasehold())]
  const before = await clock.now()
  await clock.advance('7d')
  await clock.advance(500)
  const passed = (await other.now()).getTime() - before.getTime()
  assert.ok(passed >= 7 * DAY_MS + 500 && passed < 7 * DAY_MS + 90_000, `${passed}`)
  await assert.rejects(clock.advance(-1), InvalidOptionError)
})

test('a database that had jobs before is refused, unless it is asked for', async (t) => {
  const { lh } = await scene(t)
  await lh.enqueue(kind<null>('bill', {}), null)
  await assert.rejects(testClock(lh), (error: InvalidOptionError) => {
    assert.equal(error.code, 'INVALID_OPTION')
    assert.match(error.message, /this database has jobs/)
    return true
  })
  const clock = await testClock(lh, { evenWithJobs: true })
  await clock.advance('1h')
  await testClock(lh) // It has such a clock, so it is a test database.
})

test('a run goes to its end over sleeps, retries and timeouts of months', async (t) => {
  const { lh } = await scene(t)
  const clock = await testClock(lh)
  let calls = 0
  const flow = workflow<null, string>(
    'flow',
    { retry: { attempts: 8, backoff: { first: '1d', max: '30d' } } },
    async (run) => {
      await run.step('flaky', () => {
        if (++calls < 6) throw new Error('not yet')
      })
      await run.sleep('60d')
      const first = await run.any({ paid: run.signal('paid'), late: run.sleep('30d') })
      return first.name
    },
  )
  const run = await start(lh, flow, null)
  const before = await clock.now()
  const { status, result } = await clock.runToEnd([handleRuns(flow)], run)
  assert.deepEqual([status, result, calls], ['completed', 'late', 6])
  assert.ok((await clock.now()).getTime() - before.getTime() > 100 * DAY_MS)
})

test('a run that waits for a signal only is returned as it is, and goes on when the signal is sent', async (t) => {
  const { lh } = await scene(t)
  const clock = await testClock(lh)
  const flow = workflow<null, unknown>('flow', {}, async (run) => run.signal('go'))
  const run = await start(lh, flow, null, { runId: 'r' })
  const { status, label } = await clock.runToEnd([handleRuns(flow)], run)
  assert.deepEqual([status, label], ['pending', 'waiting'])
  await signal(lh, flow, 'r', 'go', 'now')
  assert.equal((await clock.runToEnd([handleRuns(flow)], run)).result, 'now')
})

test('drain() wakes a run whose signal was sent before', async (t) => {
  const { lh } = await scene(t)
  const flow = workflow<null, unknown>('flow', {}, async (run) => run.signal('go'))
  const { jobId } = await start(lh, flow, null, { runId: 'r' })
  for (const expected of ['waiting', null]) {
    await lh.drain([handleRuns(flow)])
    assert.equal((await lh.get(jobId))!.label, expected)
    if (expected === 'waiting') await signal(lh, flow, 'r', 'go')
  }
})

test('the clock is moved by no more than `atMost`', async (t) => {
  const { lh } = await scene(t)
  const clock = await testClock(lh)
  const flow = workflow<null, void>('flow', {}, async (run) => {
    await run.sleep('1d')
    await run.sleep('7d')
  })
  const run = await start(lh, flow, null)
  const { status, label } = await clock.runToEnd([handleRuns(flow)], run, { atMost: '6d' })
  assert.deepEqual([status, label], ['pending', 'scheduled'])
  assert.equal((await clock.runToEnd([handleRuns(flow)], run)).status, 'completed')
})

test('parents, children and jobs go to their ends together', async (t) => {
  const { lh } = await scene(t)
  const clock = await testClock(lh)
  const bill = kind<number>('bill', {}).returns<number>()
  const child = workflow<number, number>('child', {}, async (run, n) => {
    await run.sleep('1d')
    return run.job(bill, n, { delay: '60d' })
  })
  const parent = workflow<null, number[]>('parent', {}, async (run) =>
    Promise.all([1, 2].map((n) => run.child(child, n, { name: ['child', n] }))),
  )
  const run = await start(lh, parent, null)
  const handlers = [handleRuns(parent), handleRuns(child), handle(bill, ({ input }) => 10 * input)]
  assert.deepEqual((await clock.runToEnd(handlers, run)).result, [10, 20])
})

test('a job without a handler, and one that fails for good, are returned as they are', async (t) => {
  const { lh } = await scene(t)
  const clock = await testClock(lh)
  const [bill, mail] = [kind<null>('bill', {}), kind<null>('mail', {})]
  const fails = handle(bill, () => {
    throw new Fatal('no')
  })
  const [billed, mailed] = [await lh.enqueue(bill, null), await lh.enqueue(mail, null)]
  assert.equal((await clock.runToEnd([fails], mailed)).label, 'ready')
  assert.equal((await clock.runToEnd([fails], billed)).status, 'dead_letter')
})

test('a worker that runs while the clock moves takes the gap for no outage, and reclaims what has expired', async (t) => {
  const { lh, db, log, worker, leasehold } = await scene(t)
  const clock = await testClock(lh)
  const bill = kind<null>('bill', {})
  const { jobId } = await lh.enqueue(bill, null)
  await leasehold().claim(bill, { lease: '30s' }) // And never finishes it.
  worker([handle(bill, () => {})], { sweep: '100ms', poll: '50ms' })
  const looked = 'from leasehold.sweep where looked_at is not null'
  await until('it sweeps', async () => (await count(db, looked)) === 1)
  await clock.advance('1h')
  await until('it has ended', async () => (await lh.get(jobId))!.status === 'completed')
  assert.deepEqual(
    log.filter(({ message }) => message.startsWith('no sweep for a while')),
    [],
  )
})
