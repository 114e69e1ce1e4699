// A paused queue or kind: none of its jobs start, waiting ones are released, running ones and other work go on.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { handle, kind, type Leasehold } from '../../src/index.ts'
import type { PauseTarget } from '../../src/jobs/pause.ts'
import { gate } from '../support/gate.ts'
import { movableTimers } from '../support/movable-clock.ts'
import { jobRow } from '../support/queue.ts'
import { until } from '../support/until.ts'
import {
  collect,
  count,
  isClaim,
  next,
  nothingHeld,
  notifications,
  type Scene,
  scene,
  statements,
  untilStatus,
} from '../support/worker.ts'

const task = kind<number>('task')
const other = kind<number>('other')
const numbers = (length: number, from = 0) => Array.from({ length }, (_, n) => ({ input: from + n }))

const QUICK = 900
const SLOW = 100
const CONCURRENCY = 2

/** Jobs of this kind that are back as if they had never been claimed. */
function released({ db }: Scene, name = 'task'): Promise<number> {
  return count(db, 'from leasehold.jobs where kind = $1 and label = $2 and attempts = 0', [name, 'paused'])
}

/** Handlers that are quick at first, so that the worker claims ahead, and then wait for a gate. */
function slowingDown({ onQuick = (_: number) => {}, onFirstSlow = () => {} }) {
  const goOn = gate()
  let slow = 0
  const handler = handle(task, async ({ input }) => {
    if (input < QUICK) return onQuick(input)
    if (slow++ === 0) onFirstSlow()
    await goOn.opened
  })
  /** Its slots are taken by slow ones, and more of those are claimed. */
  const untilSomeWait = async ({ db }: Scene) => {
    const claimed = `from leasehold.job where claim_id is not null and payload::int >= ${QUICK}`
    await until('slots are taken', () => slow === CONCURRENCY)
    await until('some wait to be started', async () => (await count(db, claimed)) > CONCURRENCY)
  }
  return { handler, goOn: goOn.open, untilSomeWait }
}

test('a worker that listens releases waiting jobs at once, lets running ones go on, and starts them after the resume', async (t) => {
  const setting = await scene(t)
  const { lh, db, worker } = setting
  // From the first slow job on, no time passes for the worker: it looks for nothing, and nothing has waited too long.
  const onFirstSlow = () => {
    const standing = performance.now()
    t.mock.method(performance, 'now', () => standing)
  }
  const { handler, goOn, untilSomeWait } = slowingDown({ onFirstSlow })
  const heard = notifications(t)
  const busy = worker([handler], { concurrency: CONCURRENCY, poll: '1h' })
  await next(busy, 'wakeup', ({ by }) => by === 'listen')
  await lh.enqueueMany(task, numbers(QUICK + SLOW))
  await untilSomeWait(setting)
  const [names, before] = [statements(t), busy.tally.released]

  await lh.pause({ queue: 'elsewhere' })
  await until('the worker has heard of another queue', () => heard.includes('leasehold.pause queue:elsewhere'))
  assert.equal(busy.tally.released, before)
  await lh.pause({ queue: 'task' })
  await until('only what runs is held', async () => (await released(setting)) === SLOW - CONCURRENCY)
  assert.ok(!names.includes('queue.paused'), 'it heard, and did not look')
  const started = collect(busy, 'started')
  names.length = 0
  goOn()
  await until('what runs is completed', () => busy.tally.completed === QUICK + CONCURRENCY)
  await until('it has asked for more', () => names.some(isClaim))
  await lh.enqueue(task, QUICK)
  assert.deepEqual([started, await released(setting)], [[], SLOW - CONCURRENCY + 1])

  t.mock.restoreAll()
  heard.length = 0
  await lh.resume({ queue: 'task' })
  await until('it is woken', () => heard.includes('leasehold.wake task'))
  await until('all are completed', () => busy.tally.completed === QUICK + SLOW + 1)
  await busy.stop()
  await nothingHeld(db)
})

for (const target of [{ queue: 'task' }, { kind: task }] satisfies PauseTarget[]) {
  const of = 'queue' in target ? 'queue' : 'kind'
  test(`jobs of a claim that began before its ${of} was paused, and whose reply comes after, do not start`, async (t) => {
    const setting = await scene(t)
    const { lh, db, worker } = setting
    const [names, heard] = [statements(t), notifications(t)]
    const busy = worker([handle(task, () => {})], { poll: '1h', sweep: '1h' })
    const started = collect(busy, 'started')
    await next(busy, 'wakeup', ({ by }) => by === 'listen')
    await until('its housekeeping is done', () => names.includes('job.count_suspects'))

    // The claim reads what is paused, and then waits here to write its own row.
    const locker = await db.connect()
    await locker.query('begin')
    await locker.query('lock table leasehold.claim in share row exclusive mode')
    const jobs = await lh.enqueueMany(task, numbers(3))
    const waiting = "from pg_stat_activity where query like '-- job.claim%' and wait_event_type = 'Lock'"
    await until('the claim waits', async () => (await count(db, `${waiting} and datname = current_database()`)) === 1)
    assert.equal(await lh.pause(target), 'paused')
    await until('the worker has heard', () => heard.includes(`leasehold.pause ${of}:task`))
    await locker.query('commit')

    await until('they are released', () => busy.tally.released === 3)
    for (const { jobId } of jobs) {
      const { label, attempts, lease_generation } = await jobRow(db, jobId)
      assert.deepEqual([label, attempts, lease_generation], ['paused', 0, '1'])
    }
    assert.deepEqual(started, [])
    await lh.resume(target)
    await until('they are completed', () => busy.tally.completed === 3)
    assert.equal(busy.tally.released, 3)
  })
}

test('a worker that does not listen releases waiting jobs at its next look', async (t) => {
  const setting = await scene(t)
  const { lh, db, worker, leasehold } = setting
  // Time passes in timers.pass() alone.
  const timers = movableTimers(t, { runByThemselves: false, stands: true })
  const names = statements(t)
  const { handler, goOn, untilSomeWait } = slowingDown({
    // The first claim was followed by a look. Half of the time to the next one has passed when those are claimed that wait.
    onQuick: (input) => timers.pass(input === QUICK / 3 ? 2_000 : 0.05),
  })
  await lh.enqueueMany(task, numbers(QUICK + SLOW))
  const busy = worker([handler], { concurrency: CONCURRENCY }, leasehold({ listen: false }))
  await untilSomeWait(setting)
  names.length = 0
  await lh.pause({ queue: 'task' })
  assert.deepEqual([busy.tally.released, names.includes('queue.paused')], [0, false])
  timers.pass(2_100) // Less than a job may wait before it is released for other workers.
  await until('only what runs is held', async () => (await released(setting)) === SLOW - CONCURRENCY)
  assert.ok(names.includes('queue.paused'))
  goOn()
  await until('what runs is completed', () => {
    timers.pass(1) // An outcome waits for others for a few milliseconds.
    return busy.tally.completed === QUICK + CONCURRENCY
  })
  await busy.stop()
  await nothingHeld(db)
  t.mock.restoreAll()
  await lh.resume({ queue: 'task' })
  assert.equal((await lh.drain([handler])).completed, SLOW - CONCURRENCY)
})

test('a worker without waiting jobs does not query pauses', async (t) => {
  const { lh, worker, leasehold } = await scene(t)
  const [names, hold] = [statements(t), gate()]
  const timers = movableTimers(t)
  worker([handle(task, () => hold.opened)], { poll: 20, lease: '1h' }, leasehold({ listen: false }))
  await lh.enqueue(task, 1)
  const looks = () => names.filter((name) => name === 'job.cancel_requests').length
  await until('it has looked three times', () => {
    timers.pass(4_100)
    return looks() >= 3
  })
  hold.open()
  assert.ok(!names.includes('queue.paused'))
})

/** A kind that shares its queue with another, resumed by name or by declaration. */
async function sharedQueue(t: TestContext, prepare: (lh: Leasehold) => Promise<unknown>, by: 'name' | 'declaration') {
  const { lh, db, worker } = await scene(t)
  const [one, two] = [kind<number>('one', { queue: 'shared' }), kind<number>('two', { queue: 'shared' })]
  await prepare(lh)
  const busy = worker([handle(one, () => {}), handle(two, () => {})], { poll: '1h' })
  const started = collect(busy, 'started')
  await next(busy, 'wakeup', ({ by }) => by === 'listen')
  await lh.pause({ kind: one })
  const paused = await lh.enqueueMany(one, numbers(5))
  const others = await lh.enqueueMany(two, numbers(5))
  for (const { jobId } of others) await untilStatus(db, jobId, 'completed')
  for (const { jobId } of paused) {
    const { label, attempts } = await jobRow(db, jobId)
    assert.deepEqual([label, attempts], ['paused', 0])
  }
  assert.deepEqual(new Set(started.map((job) => job?.kind)), new Set(['two']))
  const heard = notifications(t)
  await lh.resume({ kind: by === 'name' ? 'one' : one })
  await until('it is woken', () => heard.includes('leasehold.wake shared'))
  await until('all are completed', () => busy.tally.completed === 10)
}

test('a paused kind leaves the others of its queue alone, and is woken by the queue it declares', async (t) => {
  await sharedQueue(t, async () => {}, 'declaration')
})

test('a kind that is resumed by its name is woken by the queue it was configured with', async (t) => {
  await sharedQueue(t, (lh) => lh.configure([kind('one', { queue: 'shared' })]), 'name')
})

/** A job whose worker died, of a queue that was paused since. */
async function pausedSuspect({ lh, db }: Scene): Promise<string> {
  const { jobId } = await lh.enqueue(task, 1)
  assert.equal((await lh.claim(task)).length, 1)
  await db.clock.advance('1 hour')
  await lh.drain([handle(kind('nothing'), () => {})]) // Sweeps.
  assert.equal((await jobRow(db, jobId)).crashes, 1)
  await lh.pause({ queue: 'task' })
  return jobId
}

test('suspects of a paused queue do not keep a worker from its other work', async (t) => {
  const setting = await scene(t)
  const { lh, db, worker } = setting
  const suspect = await pausedSuspect(setting)
  const hold = gate()
  const handlers = [handle(task, () => {}), handle(other, ({ input }) => (input === 0 ? hold.opened : undefined))]
  // While suspects wait, a worker claims nothing else until what it holds is done, for as long as a lease.
  const busy = worker(handlers, { lease: '1h', sweep: 100, poll: 20 })
  const started = next(busy, 'started')
  await lh.enqueue(other, 0)
  await started
  const names = statements(t)
  await db.clock.advance('11 s')
  await until('it has looked for suspects', () => names.includes('job.count_suspects'))
  await until('and has claimed since', () => names.findLastIndex(isClaim) > names.indexOf('job.count_suspects'))
  const { jobId } = await lh.enqueue(other, 1)
  await untilStatus(db, jobId, 'completed')
  assert.equal((await jobRow(db, suspect as typeof jobId)).label, 'paused')
  hold.open()
  await lh.resume({ queue: 'task' })
  await untilStatus(db, suspect as typeof jobId, 'completed')
})

test('drain and runOnce end although jobs of a paused queue and of a paused kind wait', async (t) => {
  const setting = await scene(t)
  const { lh } = setting
  await pausedSuspect(setting)
  await lh.enqueueMany(task, numbers(3))
  const third = kind<number>('third')
  await lh.pause({ kind: third })
  await lh.enqueueMany(third, numbers(2))
  await lh.enqueueMany(other, numbers(4))
  const handlers = [task, other, third].map((one) => handle(one, () => {}))
  assert.equal((await lh.runOnce(handlers, { concurrency: 1 })).completed, 1)
  assert.equal((await lh.drain(handlers)).completed, 3)
  assert.equal((await lh.drain(handlers)).completed, 0)
  assert.equal((await lh.runOnce(handlers)).completed, 0)
  await lh.resume({ queue: 'task' })
  await lh.resume({ kind: third })
  assert.equal((await lh.drain(handlers)).completed, 6)
})
