// The registry: which workers run, which ran, and which worker ran a job.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Lane } from '../../src/db/lane.ts'
import { handle, kind } from '../../src/index.ts'
import { VERSION } from '../../src/version.ts'
import { Registration } from '../../src/worker/registration.ts'
import { behindProxy } from '../support/behind-proxy.ts'
import { gate } from '../support/gate.ts'
import { movableClock, movableTimers } from '../support/movable-clock.ts'
import { jobRow, newWorker } from '../support/queue.ts'
import { until } from '../support/until.ts'
import { count, inTime, next, type Scene, scene, statements } from '../support/worker.ts'

const task = kind<number>('task')
const other = kind<number>('other', { queue: 'slow', maxAttempts: 1 })

async function workers({ db }: Scene): Promise<Record<string, unknown>[]> {
  return (await db.pool.query('select * from leasehold.workers order by started_at, id')).rows
}

/** Seconds from the start of the only worker to when it was last seen, by the clock of the database. */
async function seenFor(setting: Scene): Promise<number> {
  const [worker] = await workers(setting)
  return ((worker!.last_seen_at as Date).getTime() - (worker!.started_at as Date).getTime()) / 1_000
}

test('a worker is registered before its first claim, and shown as stopped when it has stopped', async (t) => {
  const setting = await scene(t)
  const { lh, db, worker } = setting
  await db.clock.advance('1 hour')
  const names = statements(t)
  const busy = worker([handle(task, () => {}), handle(other, () => {})], { label: 'mailer' })
  const completed = next(busy, 'completed')
  await lh.enqueue(task, 1)
  await completed
  assert.ok(names.indexOf('worker.register') < names.indexOf('job.claim'))
  const [row] = await workers(setting)
  assert.deepEqual(
    [row!.id, row!.label, row!.version, row!.kinds, row!.queues, row!.stopped_at],
    [busy.identity.id, 'mailer', VERSION, ['other', 'task'], ['slow', 'task'], null],
  )
  const { rows } = await db.pool.query('select leasehold.clock() as now')
  const age = rows[0].now.getTime() - (row!.started_at as Date).getTime()
  assert.ok(age >= 0 && age < 1_800_000, 'the clock of the database says when it started')
  await busy.stop()
  const [stopped] = await workers(setting)
  assert.ok((stopped!.stopped_at as Date) >= (stopped!.started_at as Date))
  assert.deepEqual(stopped!.last_seen_at, stopped!.stopped_at)
})

test('finished jobs, dead letters and attempts name their worker after it has gone', async (t) => {
  const { lh, db } = await scene(t)
  const { jobId: good } = await lh.enqueue(task, 1)
  const { jobId: bad } = await lh.enqueue(other, 1)
  const failing = handle(other, () => Promise.reject(new Error('no')))
  await lh.drain([handle(task, () => {}), failing], { label: 'last night' })
  for (const jobId of [good, bad]) {
    assert.equal((await jobRow(db, jobId)).claimed_by_label, 'last night')
    assert.equal((await lh.get(jobId))?.claimedBy, 'last night')
    assert.deepEqual(
      (await lh.attempts(jobId)).map(({ worker }) => worker.label),
      ['last night'],
    )
  }
})

test('drain and runOnce register and stop like any worker', async (t) => {
  const setting = await scene(t)
  await setting.lh.drain([handle(task, () => {})], { label: 'a' })
  await setting.lh.runOnce([handle(task, () => {})], { label: 'b' })
  const rows = await workers(setting)
  assert.deepEqual(
    rows.map(({ label, stopped_at: at }) => [label, at instanceof Date]),
    [
      ['a', true],
      ['b', true],
    ],
  )
})

test('a registration whose reply is lost is repeated, and leaves one row', async (t) => {
  const setting = await behindProxy(t)
  const { lh, far, proxy, worker } = setting
  const cut = proxy.cutReplies('leasehold/worker.register')
  await lh.enqueue(task, 1)
  const busy = worker([handle(task, () => {})], {}, far)
  const completed = next(busy, 'completed')
  await inTime(cut, 'it was not registered')
  await completed
  assert.equal((await workers(setting)).length, 1)
})

test('a worker that cannot register claims nothing, and goes on when it can', async (t) => {
  const setting = await scene(t)
  const { lh, db, worker } = setting
  await db.pool.query('alter table leasehold.worker rename to worker_elsewhere')
  const names = statements(t)
  const { jobId } = await lh.enqueue(task, 1)
  const busy = worker([handle(task, () => {})])
  const completed = next(busy, 'completed')
  await next(busy, 'problem', ({ doing }) => doing === 'claiming')
  assert.ok(!names.includes('job.claim'))
  assert.equal((await jobRow(db, jobId)).status, 'pending')
  await db.pool.query('alter table leasehold.worker_elsewhere rename to worker')
  await completed
  assert.equal((await workers(setting)).length, 1)
})

test('a worker that cannot record its stop stops all the same, without a log line', async (t) => {
  const { db, worker, log } = await scene(t)
  const names = statements(t)
  const busy = worker([handle(task, () => {})])
  await until('it has claimed', () => names.includes('job.claim'))
  await db.pool.query('alter table leasehold.worker rename to worker_elsewhere')
  await busy.stop()
  assert.ok(names.includes('worker.stopped'))
  assert.deepEqual(
    log.filter(({ level }) => level !== 'info'),
    [],
  )
})

for (const how of ['a worker', 'drain']) {
  test(`${how} is seen every five seconds, also while its slots are taken`, async (t) => {
    const setting = await scene(t)
    const { lh, db, worker } = setting
    const timers = movableTimers(t)
    const hold = gate()
    const handlers = [handle(task, () => hold.opened)]
    const options = { concurrency: 1, lease: '1h' } as const
    await lh.enqueueMany(task, [{ input: 1 }, { input: 2 }])
    const drained = how === 'drain' ? lh.drain(handlers, options) : undefined
    if (drained === undefined) worker(handlers, options)
    await until('a job runs', async () => (await count(db, 'from leasehold.job where claim_id is not null')) === 1)
    for (const minutes of [1, 2, 3]) {
      await db.clock.advance('1 min')
      timers.pass(5_000)
      await until('it is seen again', async () => (await seenFor(setting)) >= minutes * 60)
    }
    hold.open()
    await drained
  })
}

test('a beat that takes longer than the time between two is not repeated at once', async (t) => {
  const clock = movableClock(t, { stands: true })
  let beats = 0
  const lane = {
    run: async () => {
      clock.pass(6_000)
      if (++beats > 2) throw new Error('it beats again, and who waits for the first goes on waiting')
      return [{ outcome: 'joined', silence: 'f' }]
    },
  } as unknown as Lane
  const registration = new Registration({ lane, worker: newWorker(), mode: 'drain' })
  await registration.renew([task])
  assert.equal(beats, 1, 'it may claim')
  await registration.renew([task])
  assert.equal(beats, 2)
  await registration.stopped().catch(() => {})
})

test('a worker that was pruned while it was out of reach is registered again', async (t) => {
  const setting = await scene(t)
  const { db, worker } = setting
  const timers = movableTimers(t)
  worker([handle(task, () => {})], { label: 'away' })
  await until('it is registered', async () => (await workers(setting)).length === 1)
  await db.pool.query('delete from leasehold.worker')
  timers.pass(5_000)
  await until('it is registered again', async () => (await workers(setting))[0]?.label === 'away')
})

test('claims by hand of one Leasehold are those of one worker, which stops when it is closed', async (t) => {
  const setting = await scene(t)
  const { lh, leasehold } = setting
  const script = leasehold()
  await lh.enqueueMany(task, [{ input: 1 }, { input: 2 }])
  await lh.enqueue(other, 3)
  const names = statements(t)
  const jobs = [...(await script.claim(task)), ...(await script.claim(task)), ...(await script.claim([other, task]))]
  assert.equal(names.indexOf('worker.register'), 0)
  assert.equal(names.filter((name) => name === 'worker.register').length, 2, 'once more for the second kind')
  const ids = await Promise.all(jobs.map(async ({ id }) => (await jobRow(setting.db, id)).claimed_by))
  const [row, ...rest] = await workers(setting)
  assert.deepEqual([new Set(ids), rest], [new Set([row!.id]), []])
  assert.deepEqual([row!.kinds, row!.queues, row!.stopped_at], [['other', 'task'], ['slow', 'task'], null])
  assert.match(String(row!.label), new RegExp(`:${process.pid}$`))
  for (const job of jobs) await job.complete()
  for (const { id } of jobs) assert.equal((await lh.get(id))?.claimedBy, row!.label)
  await script.close()
  assert.ok((await workers(setting))[0]!.stopped_at instanceof Date)
})

test('first claims by hand at the same time register once', async (t) => {
  const setting = await scene(t)
  const names = statements(t)
  await Promise.all([1, 2, 3, 4].map(() => setting.lh.claim(task)))
  assert.equal(names.filter((name) => name === 'worker.register').length, 1)
  assert.equal((await workers(setting)).length, 1)
})

test('a claim by hand that cannot register claims nothing, and the next one can', async (t) => {
  const { lh, db } = await scene(t)
  const { jobId } = await lh.enqueue(task, 1)
  await db.pool.query('alter table leasehold.worker rename to worker_elsewhere')
  await assert.rejects(lh.claim(task), { code: 'SCHEMA' })
  assert.equal((await jobRow(db, jobId)).status, 'pending')
  await db.pool.query('alter table leasehold.worker_elsewhere rename to worker')
  assert.equal((await lh.claim(task)).length, 1)
})

test('a Leasehold closes although it cannot record the stop', async (t) => {
  const { lh, db } = await scene(t)
  await lh.claim(task)
  await db.pool.query('alter table leasehold.worker rename to worker_elsewhere')
  await lh.close()
  await lh.close()
})

test('of jobs that one process claimed by two calls and lost, none is blamed; one that was alone is', async (t) => {
  const { lh, db, leasehold } = await scene(t)
  await lh.enqueueMany(task, [{ input: 1 }, { input: 2 }, { input: 3 }])
  const [script, lonely] = [leasehold(), leasehold()]
  const together = [...(await script.claim(task)), ...(await script.claim(task))]
  const [alone] = await lonely.claim(task)
  await db.clock.advance('31 s')
  await lh.drain([handle(kind('nothing'), () => {})]) // Sweeps.
  for (const { id } of together) {
    const { status, attempts, crashes } = await jobRow(db, id)
    assert.deepEqual([status, attempts, crashes], ['pending', 0, 1])
  }
  const { status, attempts, crashes } = await jobRow(db, alone!.id)
  assert.deepEqual([status, attempts, crashes], ['pending', 1, 1])
})

test('workers and operator actions are pruned when their retention is over, unless a worker still holds a claim', async (t) => {
  const setting = await scene(t, { retention: { workers: '2h' } })
  const { lh, db, worker, leasehold } = setting
  await lh.configure([])
  await lh.drain([handle(task, () => {})], { label: 'gone' })
  await lh.enqueue(task, 1)
  await leasehold().claim(task, { lease: '1d' })
  await lh.pause({ queue: 'task' }, { by: 'ada' })
  await db.clock.advance('1 hour')
  await lh.drain([handle(task, () => {})], { label: 'recent' })
  await lh.resume({ queue: 'task' }, { by: 'bob' })
  const labels = async () => (await workers(setting)).map(({ label }) => label)
  const actions = async () =>
    (await db.pool.query('select by from leasehold.operator_actions')).rows.map(({ by }) => by)
  assert.deepEqual([(await labels()).length, await actions()], [3, ['ada', 'bob']])
  await db.clock.advance('61 min')
  worker([handle(other, () => {})], { label: 'here' })
  await until('the oldest worker is pruned', async () => !(await labels()).includes('gone'))
  await until('the oldest action is pruned', async () => (await actions()).length === 1)
  await until('this worker is registered', async () => (await labels()).includes('here'))
  assert.deepEqual(await actions(), ['bob'])
  assert.deepEqual((await labels()).slice(1), ['recent', 'here'])
  assert.match(String((await labels())[0]), new RegExp(`:${process.pid}$`), 'it holds a claim')
})
