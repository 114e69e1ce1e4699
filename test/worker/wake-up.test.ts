// How a worker is notified of work. It polls once a minute, so a job that starts was announced.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type pg from 'pg'
import { Lane } from '../../src/db/lane.ts'
import { handle, kind, type Leasehold } from '../../src/index.ts'
import { claim, newClaimId, releaseClaim } from '../../src/jobs/claim.ts'
import { everyStart } from '../../src/jobs/scan-walk.ts'
import { markBusy } from '../../src/jobs/wake.ts'
import { gate } from '../support/gate.ts'
import { jobRow, LEASE_MS, newWorker } from '../support/queue.ts'
import { until } from '../support/until.ts'
import { count, inTime, next, type Scene, scene, statements } from '../support/worker.ts'

const task = kind<number>('task', { maxAttempts: 1 })
const other = kind<number>('other')

/** A worker that polls once a minute, and listens. */
async function listeningWorker(t: TestContext, run: () => unknown = () => {}) {
  const setting = await scene(t)
  const names = statements(t)
  const busy = setting.worker([handle(task, run), handle(other, run)], { poll: '1m' })
  assert.deepEqual(await next(busy, 'wakeup'), { by: 'listen' })
  /** It has claimed all it was going to, and sleeps: nothing was sent during fifty round trips. */
  const asleep = async () => {
    for (let trips = 0, sent = names.length; trips < 50; trips++) {
      await setting.db.pool.query('select 1')
      if (names.length > sent) [trips, sent] = [0, names.length]
    }
  }
  await asleep()
  return { ...setting, busy, asleep }
}

test('an idle worker starts a job as soon as it is committed, by any way to enqueue', async (t) => {
  const { lh, db, busy, asleep } = await listeningWorker(t)
  const enqueues: (() => Promise<unknown>)[] = [
    () => lh.enqueue(task, 1),
    () => lh.enqueueMany(task, [{ input: 2 }]),
    () => lh.enqueue(other, 3, { idempotencyKey: 'k' }),
    () => lh.enqueue(task, 4, { priority: 0 }),
    () => db.pool.query("select leasehold.enqueue('task', '5')"),
    () => db.pool.query(`select leasehold.enqueue('task', '6', '{"idempotency_key": "x"}')`),
  ]
  for (const [index, enqueue] of enqueues.entries()) {
    const completed = next(busy, 'completed')
    await enqueue()
    await completed
    assert.equal(busy.tally.completed, index + 1, String(enqueue))
    await asleep()
  }
})

test('work of another priority is found at once, too, however long it took to connect', async (t) => {
  const { lh, worker } = await scene(t)
  for (let round = 0; round < 5; round++) {
    const busy = worker([handle(task, () => {})], { poll: '1m' })
    const listens = next(busy, 'wakeup')
    for (const priority of [5, 0, 9]) {
      await listens
      const completed = next(busy, 'completed')
      await lh.enqueue(task, priority, { priority })
      await completed
    }
    await busy.stop()
  }
})

test('a redriven job wakes a worker', async (t) => {
  let fails = true
  const { lh, busy, asleep } = await listeningWorker(t, () => {
    if (fails) throw new Error('no')
  })
  const dead = next(busy, 'dead_letter')
  const { jobId } = await lh.enqueue(task, 1)
  await dead
  await asleep()
  fails = false
  const completed = next(busy, 'completed')
  assert.deepEqual(await lh.redrive(jobId), [jobId])
  await completed
})

test('jobs enqueued before the worker listened are found', async (t) => {
  const { lh, worker } = await scene(t)
  await lh.enqueue(task, 1)
  const completed = next(worker([handle(task, () => {})], { poll: '1m' }), 'completed')
  await completed
})

/** The notifications on the channel, in order. */
async function heard(
  db: Scene['db'],
  channel = 'leasehold.wake',
): Promise<{ messages: string[]; sync(): Promise<void> }> {
  const ear: pg.Client = await db.connect()
  const messages: string[] = []
  ear.on('notification', ({ payload }) => messages.push(payload ?? ''))
  await ear.query(`listen "${channel}"`)
  // Notifications committed before a statement of ours ends are delivered by then.
  return { messages, sync: async () => void (await ear.query('select 1')) }
}

test('a transaction announces each queue once, however many jobs it enqueues', async (t) => {
  const { lh, db } = await scene(t)
  const { messages, sync } = await heard(db)
  const tx = await db.connect()
  await tx.query('begin')
  for (let n = 0; n < 5; n++) await lh.enqueue(task, n, { tx })
  await lh.enqueueMany(
    task,
    Array.from({ length: 100 }, (_, input) => ({ input })),
    { tx },
  )
  await lh.enqueue(other, 1, { tx })
  await sync()
  assert.deepEqual(messages, [], 'announced before it was committed')
  await tx.query('commit')
  await sync()
  assert.deepEqual(messages.sort(), ['other', 'task'])
  await lh.enqueue(task, 1, { delay: '1h' })
  await sync()
  assert.equal(messages.length, 2, 'a job for later was announced')
})

test('enqueues are silent only while their queue is marked busy', async (t) => {
  const { lh, db } = await scene(t)
  const { messages, sync } = await heard(db)
  await markBusy(new Lane(db.pool), ['task'], 3_600_000)
  await db.clock.advance('59 minutes')
  await lh.enqueue(task, 1)
  await db.pool.query("select leasehold.enqueue('task', '2')")
  await lh.enqueue(other, 1)
  await sync()
  assert.deepEqual(messages, ['other'])
  await db.clock.advance('1 minute')
  await lh.enqueue(task, 3)
  await sync()
  assert.deepEqual(messages, ['other', 'task'])
})

test('a worker that cannot keep up marks its queue busy, and clears it after the backlog', async (t) => {
  const { lh, db, worker } = await scene(t)
  const jobs = Array.from({ length: 10_000 }, (_, input) => ({ input }))
  await lh.enqueueMany(task, jobs)
  const turn = handle(task, () => new Promise((resolve) => setImmediate(resolve)))
  const busy = worker([turn], { concurrency: 4, prefetch: 0, poll: '1m' })
  const isBusy = async () => (await count(db, 'from leasehold.busy where until > leasehold.clock()')) > 0
  await until('the queue is marked busy', isBusy)
  const names = statements(t)
  // For the worker no time passes from here on: its mark does not expire.
  const standing = performance.now()
  t.mock.method(performance, 'now', () => standing)
  await db.pool.query('delete from leasehold.job where claim_id is null')
  await until('it takes it back', async () => names.includes('busy.clear'))
  await until('it is no longer busy', async () => !(await isBusy()))
  await until('nothing is left', async () => (await count(db, 'from leasehold.job')) === 0)
  const completed = next(busy, 'completed')
  await lh.enqueue(task, 1)
  await completed
})

test('a job that is released wakes a worker, as one that is enqueued does', async (t) => {
  const { lh, db } = await scene(t)
  const lane = new Lane(db.pool)
  const { messages, sync } = await heard(db)
  await lh.enqueueMany(task, [{ input: 1 }, { input: 2 }])
  const [job] = await lh.claim(task)
  await job!.release()
  const request = { claimId: newClaimId(), worker: newWorker(), kinds: ['task'], limit: 2, leaseMs: LEASE_MS }
  await claim(lane, request, everyStart(['task']))
  await releaseClaim(lane, request.worker, request.claimId)
  await sync()
  assert.deepEqual(messages, ['task', 'task', 'task'], 'enqueued, released, released after a lost reply')
  const [again] = await lh.claim(task)
  await again!.snooze('1h')
  const [other] = await lh.claim(task)
  await markBusy(lane, ['task'], 3_600_000)
  await other!.release()
  await sync()
  assert.equal(messages.length, 3, 'a job for later, and one whose queue is busy')
})

test('jobs that a stopping worker releases run at once on an idle one', async (t) => {
  const { lh, worker } = await scene(t)
  const end = gate()
  const stopping = worker([handle(task, () => end.opened)], { poll: '1m' })
  const started = next(stopping, 'started')
  await lh.enqueue(task, 1)
  await started
  const waiting = worker([handle(task, () => {})], { poll: '1m' })
  await next(waiting, 'wakeup')
  const completed = next(waiting, 'completed')
  await stopping.stop({ grace: 0 })
  await completed
  end.open()
})

test('a worker that finds more than it can take calls the others', async (t) => {
  const { lh, db, worker } = await scene(t)
  const { messages, sync } = await heard(db, 'leasehold.help')
  await db.pool.query(`insert into leasehold.worker (id, label, version, kinds, queues, started_at, last_seen_at)
    select gen_random_uuid(), 'other', '0', '{task}', '{task}', now(), now() from generate_series(1, 2)`)
  const [names, end] = [statements(t), gate()]
  worker([handle(task, () => end.opened)], { concurrency: 2, poll: '1m' })
  await until('it has counted the others', () => names.includes('wake.fleet'))
  await lh.enqueueMany(
    task,
    [1, 2, 3].map((input) => ({ input })),
  )
  await until('it calls', async () => {
    await sync()
    return messages.length > 0
  })
  assert.deepEqual(messages, ['task'])
  end.open()
})

test('a worker whose listening connection is killed logs that it polls, and listens again', async (t) => {
  const { lh, db, busy } = await listeningWorker(t)
  const [polls, listens] = [
    next(busy, 'wakeup', ({ by }) => by === 'poll'),
    next(busy, 'wakeup', ({ by }) => by === 'listen'),
  ]
  const killed = await db.pool.query(
    `select pg_terminate_backend(pid) from pg_stat_activity
      where query like '-- wake.listen%' and datname = current_database()`,
  )
  assert.equal(killed.rowCount, 1)
  await polls
  await listens
  const completed = next(busy, 'completed')
  await lh.enqueue(task, 1)
  await completed
})

test('a worker that cannot open its listening connection logs that it polls, and works', async (t) => {
  const { lh, db, worker, leasehold } = await scene(t)
  const nowhere = new URL(db.url)
  nowhere.port = '1'
  const deaf = leasehold({ listen: nowhere.href })
  const busy = worker([handle(task, () => {})], { poll: 20 }, deaf)
  const completed = next(busy, 'completed')
  assert.deepEqual(await next(busy, 'wakeup'), { by: 'poll' })
  await lh.enqueue(task, 1)
  await completed
})

test('with listen: false a worker polls', async (t) => {
  const { lh, db, worker, leasehold } = await scene(t)
  const busy = worker([handle(task, () => {})], { poll: 20 }, leasehold({ listen: false }))
  const completed = next(busy, 'completed')
  await lh.enqueue(task, 1)
  await completed
  const listening = "from pg_stat_activity where query like '-- wake.listen%' and datname = current_database()"
  assert.equal(await count(db, listening), 0)
})

test('a job for later starts when its time has come, by the clock of the database', async (t) => {
  const { lh, db, worker } = await scene(t)
  const busy = worker([handle(task, () => {})], { poll: 20 })
  const { jobId } = await lh.enqueue(task, 1, { delay: '1h' })
  const names = statements(t)
  await until('it has looked', () => names.filter((name) => name === 'job.claim').length > 3)
  assert.equal((await jobRow(db, jobId)).status, 'pending')
  const completed = next(busy, 'completed')
  await db.clock.advance('1 hour')
  await completed
})

test('two installations in one database do not wake each other', async (t) => {
  const { lh, db, worker, leasehold } = await scene(t)
  const second: Leasehold = leasehold({ schema: 'second' })
  await second.migrate()
  const workers = [lh, second].map((of) => worker([handle(task, () => {})], { poll: '1m' }, of))
  await Promise.all(workers.map((busy) => next(busy, 'wakeup', ({ by }) => by === 'listen')))
  const [first, other] = [await heard(db), await heard(db, 'second.wake')]
  const completed = next(workers[1]!, 'completed')
  await second.enqueue(task, 1)
  await inTime(completed, 'the second was not notified')
  await Promise.all([first.sync(), other.sync()])
  assert.deepEqual([first.messages, other.messages], [[], ['task']])
  assert.equal(workers[0]!.tally.completed, 0)
})

test('a worker that cannot ask to be notified claims by its polls', async (t) => {
  const { db, worker } = await scene(t)
  await db.pool.query('alter table leasehold.busy rename to busier')
  const busy = worker([handle(task, () => {})], { poll: 50 })
  await next(busy, 'problem', ({ doing }) => doing === 'claiming')
  await db.pool.query(`insert into leasehold.job (available_at, created_at, partition_bucket, queue, kind, payload)
    values (leasehold.clock(), leasehold.clock(), 0, 'task', 'task', '1')`)
  await until('it is completed', () => busy.tally.completed === 1)
})
