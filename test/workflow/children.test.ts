// Jobs and runs that a run starts: however they end, the run hears of it once.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { connectionOf } from '../../src/db/connection.ts'
import { Lane } from '../../src/db/lane.ts'
import { Fatal, handle, kind, withTransaction } from '../../src/index.ts'
import { CANCEL } from '../../src/jobs/operator.sql.ts'
import { wakeSignalled } from '../../src/jobs/signals.ts'
import { testClock } from '../../src/testing/index.ts'
import { handleRuns, type Run, retryFrom, start, terminate, workflow } from '../../src/workflow/index.ts'
import { gate } from '../support/gate.ts'
import { until } from '../support/until.ts'
import { count, next, scene, statements } from '../support/worker.ts'

const task = kind<number>('task', { maxAttempts: 1 }).returns<number>()

/** What becomes of the awaited: its value, or the code of its error. */
const settled = (wait: PromiseLike<unknown>) =>
  Promise.resolve(wait).then(
    (value) => value,
    (error) => error.code,
  )

test('the results of 300 jobs come back to the run that started them, in their order', async (t) => {
  const { lh, db, worker } = await scene(t)
  const flow = workflow<number, number[]>('flow', {}, (run, jobs) =>
    Promise.all(Array.from({ length: jobs }, (_, n) => run.job(task, n))),
  )
  const { jobId } = await start(lh, flow, 300)
  worker([handleRuns(flow), handle(task, ({ input }) => 2 * input)], { concurrency: 400 })
  const { result } = await lh.waitFor(jobId)
  assert.deepEqual(
    result,
    Array.from({ length: 300 }, (_, n) => 2 * n),
  )
  assert.equal(await count(db, 'from leasehold.signal where not consumed'), 0)
})

test('a job that is not kept, and one that ends in a transaction of its handler, have results, too', async (t) => {
  const { lh, db, worker } = await scene(t)
  const forgotten = kind<number>('forgotten', { keep: false }).returns<number>()
  const within = kind<number>('within').returns<number>()
  const flow = workflow<null, unknown>('flow', {}, async (run) => [
    await run.job(forgotten, 1),
    await run.job(within, 2),
  ])
  const { jobId } = await start(lh, flow, null)
  worker([
    handleRuns(flow),
    handle(forgotten, ({ input }) => input),
    handle(within, (job) =>
      withTransaction(db.pool, async (tx) => {
        await job.complete(tx, 20)
        return 0
      }),
    ),
  ])
  assert.deepEqual((await lh.waitFor(jobId)).result, [1, 20])
})

test('a job that fails, is cancelled, or dies with its worker, is an error in the run', async (t) => {
  const { lh, db } = await scene(t)
  const flow = workflow<null, unknown>('flow', {}, (run) =>
    Promise.all(['fails', 'cancelled', 'dies'].map((name, n) => settled(run.job(task, n, { name })))),
  )
  const { jobId } = await start(lh, flow, null)
  const runs = [handleRuns(flow)]
  await lh.drain(runs)
  const [fails, cancelled, dies] = await lh.claim(task, { limit: 3, lease: '30s' })
  assert.equal(await lh.cancel(cancelled!.id), 'requested')
  await fails!.fail(new Error('no'))
  await cancelled!.fail(new Error('no'))
  await db.clock.advance('31 s')
  const attempts = 10
  for (let n = 0; n < attempts && (await lh.get(dies!.id))!.status !== 'dead_letter'; n++) {
    await lh.drain(runs)
    await lh.claim(task, { limit: 1, lease: '30s' })
    await db.clock.advance('31 s')
  }
  await until('the run has ended', async () => {
    await lh.drain(runs)
    return (await lh.get(jobId))!.status === 'completed'
  })
  assert.deepEqual((await lh.get(jobId))!.result, ['STEP_FAILED', 'STEP_FAILED', 'STEP_FAILED'])
})

test('a run that is cancelled cancels the jobs and runs that it has started', async (t) => {
  const { lh } = await scene(t)
  const child = workflow<null, unknown>('child', {}, async (run) => run.signal('never'))
  const flow = workflow<null, unknown>('flow', {}, (run) => Promise.all([run.job(task, 1), run.child(child, null)]))
  const { jobId, runId } = await start(lh, flow, null, { runId: 'r' })
  const handlers = [handleRuns(flow), handleRuns(child)]
  await lh.drain(handlers)
  const [ofTask] = await lh.list({ kind: 'task' })
  const [ofChild] = await lh.list({ queue: 'child' })
  assert.equal(ofChild!.idempotencyKey, `${runId}/child`)
  assert.equal(await lh.cancel(jobId, { reason: 'no longer' }), 'requested')
  await lh.drain(handlers)
  for (const id of [jobId, ofTask!.id, ofChild!.id]) {
    const job = await lh.get(id)
    assert.deepEqual([job!.status, job!.reason], ['cancelled', 'no longer'])
  }
})

for (const end of ['cancelled', 'terminated'] as const) {
  test(`a run that is ${end} cancels no run that it has only joined`, async (t) => {
    const { lh } = await scene(t)
    const child = workflow<null, unknown>('child', {}, async (run) => run.signal('never'))
    const flow = workflow<null, unknown>('flow', {}, (run) =>
      Promise.all([
        run.child(child, null, { name: 'joined', runId: 'theirs' }),
        run.child(child, null, { name: 'started', runId: 'ours' }),
        run.child(child, null, { name: 'joined too', runId: 'ours' }),
        run.child(child, null),
      ]),
    )
    const theirs = await start(lh, child, null, { runId: 'theirs' })
    const { jobId } = await start(lh, flow, null, { runId: 'r' })
    const handlers = [handleRuns(flow), handleRuns(child)]
    await lh.drain(handlers)
    // What it had started stays its own when it starts it again.
    assert.equal(await retryFrom(lh, flow, 'r', { step: 'child' }), 'retried')
    await lh.drain(handlers)
    if (end === 'cancelled') await lh.cancel(jobId)
    else await terminate(lh, flow, 'r')
    await lh.drain(handlers)
    const jobs = await lh.list({ queue: 'child' })
    const statuses = Object.fromEntries(jobs.map(({ idempotencyKey, status }) => [idempotencyKey, status]))
    assert.deepEqual(statuses, { theirs: 'pending', ours: 'cancelled', 'r/child': 'cancelled' })
    assert.equal((await lh.get(jobId))!.status, 'cancelled')
    assert.equal((await lh.get(theirs.jobId))!.status, 'pending')
  })
}

test('a run that is cancelled while it starts a job cancels that job, too', async (t) => {
  const { lh, db, worker } = await scene(t)
  const LOCK = 4_712
  await db.pool.query(`create function hold() returns trigger language plpgsql as $$
    begin perform pg_advisory_xact_lock(${LOCK}); return new; end $$;
    create trigger hold before insert on leasehold.job for each row when (new.kind = 'task') execute function hold()`)
  const [entered, goes] = [gate(), gate()]
  const flow = workflow<null, unknown>('flow', {}, async (run) => {
    entered.open()
    await goes.opened
    return Promise.all([run.signal('never'), run.job(task, 1)])
  })
  const busy = worker([handleRuns(flow)])
  const { jobId } = await start(lh, flow, null)
  await entered.opened
  const [operator, keeper] = [await db.connect(), await db.connect()]
  await keeper.query('select pg_advisory_lock($1)', [LOCK])
  const blocked = (by: string) =>
    until(`the start waits for ${by}`, async () => {
      const text = `from pg_stat_activity where query like '%start_child%' and wait_event = '${by}'`
      return (await count(db, `${text} and datname = current_database()`)) === 1
    })
  // The cancel is requested before the job is started, and the worker learns of it meanwhile.
  await operator.query('begin')
  await new Lane(operator).run(CANCEL, [`{${jobId}}`, null, 'no longer'])
  goes.open()
  await blocked('transactionid')
  const aborted = next(busy, 'aborted')
  const ended = next(busy, 'cancelled')
  await operator.query('commit')
  await blocked('advisory')
  await aborted
  for (let trip = 0; trip < 200; trip++) await db.pool.query('select 1')
  await keeper.query('select pg_advisory_unlock($1)', [LOCK])
  await ended
  const [ofTask] = await lh.list({ kind: 'task' })
  assert.deepEqual([ofTask!.status, ofTask!.reason], ['cancelled', 'no longer'])
})

test('a child run that had ended before it was asked for gives its result', async (t) => {
  const { lh } = await scene(t)
  const child = workflow<number, number>('child', {}, async (run, n) => run.step('double', () => 2 * n))
  const code = (run: Run) => run.child(child, 4, { runId: 'shared' })
  const flow = workflow<null, number>('flow', {}, async (run) => code(run))
  const handlers = [handleRuns(flow), handleRuns(child)]
  await start(lh, child, 4, { runId: 'shared' })
  await lh.drain(handlers)
  const { jobId } = await start(lh, flow, null)
  await until('it has ended', async () => {
    await lh.drain(handlers)
    return (await lh.get(jobId))!.status === 'completed'
  })
  assert.equal((await lh.get(jobId))!.result, 8)
})

test('a run joins a run that a worker is executing, waits as for any other, and gets its result', async (t) => {
  const { lh, worker, leasehold, undo } = await scene(t)
  const [entered, left] = [gate(), gate()]
  const child = workflow<number, number>('child', {}, async (run, n) => {
    await run.step('slow', async () => {
      entered.open()
      await left.opened
    })
    return 2 * n
  })
  const flow = workflow<null, number>('flow', {}, (run) => Promise.resolve(run.child(child, 4, { runId: 'shared' })))
  const shared = await start(lh, child, 4, { runId: 'shared' })
  worker([handleRuns(child)])
  await entered.opened
  const parents = await Promise.all([start(lh, flow, null), start(lh, flow, null)])
  const sent = statements(undo)
  const drain = () => leasehold().drain([handleRuns(flow)])
  await drain()
  for (const { jobId } of parents) assert.equal((await lh.get(jobId))!.label, 'waiting')
  assert.equal(sent.filter((name) => name === 'step.start_child').length, 2, 'each asks once')
  left.open()
  await lh.waitFor(shared.jobId)
  await wakeSignalled(connectionOf('test', lh).lane)
  await drain()
  for (const { jobId } of parents) assert.equal((await lh.get(jobId))!.result, 8)
})

test('a run that joins a job which is not a run asks until that is not executed', async (t) => {
  const { lh, undo } = await scene(t)
  const child = workflow<number, number>('child', {}, async (_, n) => n)
  const plain = kind<number>('plain', { queue: 'child' })
  const flow = workflow<null, unknown>('flow', {}, (run) => Promise.resolve(run.child(child, 4, { runId: 'shared' })))
  await lh.enqueue(plain, 4, { idempotencyKey: 'shared' })
  const [held] = await lh.claim(plain)
  const { jobId } = await start(lh, flow, null)
  const sent = statements(undo)
  const drained = lh.drain([handleRuns(flow)])
  const asks = until('it asks again', () => sent.filter((name) => name === 'step.start_child').length > 1)
  assert.equal(await Promise.race([drained.then(() => 'parked'), asks.then(() => 'asks')]), 'asks')
  await held!.complete(8)
  await drained
  assert.equal((await lh.get(jobId))!.result, 8)
})

test('a child that was redriven and has completed has its result in a run that is retried from there', async (t) => {
  const { lh } = await scene(t)
  const clock = await testClock(lh)
  let isBroken = true
  const child = workflow<null, number>('child', {}, async () => {
    if (isBroken) throw new Fatal('no')
    return 7
  })
  const parent = workflow<null, number>('parent', {}, (run) => Promise.resolve(run.child(child, null)))
  const handlers = [handleRuns(parent), handleRuns(child)]
  const run = await start(lh, parent, null, { runId: 'r' })
  assert.equal((await clock.runToEnd(handlers, run)).status, 'dead_letter')
  isBroken = false
  await lh.redrive({ kind: child.kind })
  await clock.drain(handlers)
  assert.equal(await retryFrom(lh, parent, 'r', { step: 'child' }), 'retried')
  const job = await clock.runToEnd(handlers, run)
  assert.deepEqual([job.status, job.result], ['completed', 7], JSON.stringify(job.lastError))
})

test('a result that was too large to be stored is an error in the run, and not a part of it', async (t) => {
  const { lh, db } = await scene(t)
  const big = kind<null>('big').returns<string>()
  const child = workflow<null, string>('child', {}, async () => 'y'.repeat(2e6))
  const error = (wait: PromiseLike<unknown>) => Promise.resolve(wait).then(String, ({ message }) => message)
  const flow = workflow<null, unknown>('flow', {}, async (run) => [
    await error(run.job(big, null)),
    await error(run.child(child, null, { runId: 'shared' })),
    await error(run.any({ first: run.child(child, null, { runId: 'shared', name: 'again' }) })),
  ])
  const { jobId } = await start(lh, flow, null)
  const handlers = [handleRuns(flow), handleRuns(child), handle(big, () => 'x'.repeat(2e6))]
  await until('it has ended', async () => {
    await lh.drain(handlers)
    return (await lh.get(jobId))!.status === 'completed'
  })
  const { rows } = await db.pool.query(`select id from leasehold.jobs where kind in ('big', 'child@1') order by id`)
  const why = (step: string, id: number) =>
    `Step "${step}" has failed: ResultTooLarge: the result of job ${id} is larger than 1048576 bytes; store it elsewhere and return its address`
  assert.deepEqual((await lh.get(jobId))!.result, [
    why('big', rows[0].id),
    why('child', rows[1].id),
    why('again', rows[1].id),
  ])
})

test('a child whose id belongs to a run with another input is refused at once, and the code may catch that', async (t) => {
  const { lh } = await scene(t)
  const child = workflow<number, number>('child', {}, async (_, n) => n)
  const theirs = await start(lh, child, 1, { runId: 'shared' })
  const undone: string[] = []
  let slices = 0
  const flow = workflow<boolean, unknown>('flow', {}, async (run, catches) => {
    slices++
    await run.step('a', { compensate: () => void undone.push('a') }, () => 1)
    const wait = run.child(child, 2, { runId: 'shared' })
    return catches ? settled(wait) : wait
  })
  const [caught, thrown] = [await start(lh, flow, true), await start(lh, flow, false)]
  await lh.drain([handleRuns(flow)])
  assert.equal((await lh.get(caught.jobId))!.result, 'IDEMPOTENCY_CONFLICT')
  const job = (await lh.get(thrown.jobId))!
  assert.deepEqual([job.status, job.reason, undone, slices], ['dead_letter', 'fatal', ['a'], 2])
  assert.match(job.lastError!.message, new RegExp(`"shared" \\(job ${theirs.jobId}\\)`))
})
