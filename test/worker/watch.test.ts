// A steady flow of work is not announced, and no job of it is overlooked. Workers poll once a minute.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type pg from 'pg'
import { Lane } from '../../src/db/lane.ts'
import { handle, kind } from '../../src/index.ts'
import { RESTS_MS, Watch } from '../../src/worker/watch.ts'
import { movableClock } from '../support/movable-clock.ts'
import { until } from '../support/until.ts'
import { count, next, notifications, type Scene, scene, statements } from '../support/worker.ts'

const task = kind<number>('task')
const isMarked = async (db: Scene['db']) => (await count(db, 'from leasehold.busy where until > leasehold.clock()')) > 0

/** More announcements than any worker has claims, and no work. */
async function announce(db: Scene['db']): Promise<void> {
  await db.pool.query(`do $$ begin
    for n in 1..300 loop perform leasehold.tell('wake', 'task'); commit; end loop;
  end $$`)
}

/** A worker that watches its queue. For it, no time passes but by the clock. */
async function watching(t: TestContext) {
  const setting = await scene(t)
  const names = statements(t)
  const heard = notifications(t)
  const clock = movableClock(t, { stands: true })
  const busy = setting.worker([handle(task, () => {})], { poll: '1m' })
  await next(busy, 'wakeup')
  await until('it watches', async () => {
    await announce(setting.db)
    clock.pass(100)
    return isMarked(setting.db)
  })
  const ends = () =>
    until('the watch ends', async () => {
      clock.pass(500)
      return !(await isMarked(setting.db))
    })
  return { ...setting, busy, names, heard, clock, ends }
}

test('a worker that watches a queue starts its jobs without being notified', async (t) => {
  const { lh, db, busy, heard } = await watching(t)
  await db.pool.query('select 1')
  const before = heard.length
  for (let n = 0; n < 20; n++) {
    const completed = next(busy, 'completed')
    await lh.enqueue(task, n)
    await completed
  }
  assert.deepEqual(heard.slice(before), [])
})

test('a job that is committed after the watch, but was enqueued under it, starts without a notification', async (t) => {
  const { lh, db, busy, heard, ends } = await watching(t)
  const tx = await db.connect()
  await tx.query('begin')
  await lh.enqueue(task, 1, { tx: tx as pg.ClientBase })
  await ends()
  const before = heard.length
  const completed = next(busy, 'completed')
  await tx.query('commit')
  await completed
  assert.deepEqual(heard.slice(before), [])
})

test('after a watch enqueues notify again', async (t) => {
  const { lh, db, heard, ends } = await watching(t)
  await ends()
  const before = heard.length
  await lh.enqueue(task, 1)
  await until('it is notified', async () => {
    await db.pool.query('select 1')
    return heard.length > before
  })
  assert.deepEqual(heard.slice(before), ['leasehold.wake task'])
})

test('a watch ends when another worker serves the queue', async (t) => {
  const { lh, db, busy, clock, names } = await watching(t)
  await db.pool.query(`insert into leasehold.worker (id, label, version, kinds, queues, started_at, last_seen_at)
    values (gen_random_uuid(), 'other', '0', '{task}', '{other,task}', now(), now())`)
  let jobs = 0
  await until('the watch ends', async () => {
    // So much work that it would go on.
    const completed = next(busy, 'completed', ({ jobId }) => jobId === last)
    const rows = await lh.enqueueMany(
      task,
      Array.from({ length: 200 }, () => ({ input: jobs++ })),
    )
    const last = rows.at(-1)!.jobId
    await completed
    clock.pass(500)
    return !(await isMarked(db))
  })
  assert.ok(names.filter((name) => name === 'busy.mark').length <= 2)
})

test('a worker that joins is notified, although another watches the queue', async (t) => {
  const { db, worker, lh } = await watching(t)
  const joined = worker([handle(task, () => {})], { poll: '1m' }, lh)
  await next(joined, 'wakeup')
  await until('enqueues notify', async () => !(await isMarked(db)))
})

test('a worker that stops ends its watch', async (t) => {
  const { db, busy } = await watching(t)
  await busy.stop()
  assert.equal(await isMarked(db), false)
})

/** And a little more, since sums of fractions may fall short. */
const HALF_SECOND = 500.001

/** A watch whose statements are kept. */
function unit(
  t: TestContext,
  { fails = () => false, handlerMs = 0 }: { fails?: () => boolean; handlerMs?: number } = {},
) {
  const clock = movableClock(t, { stands: true })
  const sent: string[] = []
  let workers = 1
  const query = async ({ text }: { text: string }) => {
    sent.push(/^-- (\S+)/.exec(text)![1]!)
    if (fails()) throw new Error('no reply')
    return { rows: [[String(workers)]], fields: [{ name: 'workers' }] }
  }
  const watch = new Watch(new Lane({ query } as never), 1_000, () => handlerMs)
  /** Half a second with so many announcements, or with 100 claims of which so many in a hundred find a job. */
  const flow = async (perSecond: number, queue = 'q') => {
    for (let n = 0; n < perSecond / 2; n++) watch.heard(queue)
    clock.pass(HALF_SECOND)
    await watch.update(true)
  }
  const claims = async (percent: number, queue = 'q') => {
    for (let n = 0; n < 100; n++) watch.claimed(n < percent ? [queue] : [], n < percent ? 1 : 0)
    clock.pass(HALF_SECOND)
    await watch.update(true)
  }
  return {
    clock,
    sent,
    watch,
    flow,
    claims,
    begin: async () => {
      await watch.update(true)
      await flow(300)
      assert.deepEqual(sent.splice(0), ['wake.fleet', 'busy.mark'])
    },
    join: () => workers++,
  }
}

test('a watch begins with 286 announcements a second, and ends when two of three claims find nothing', async (t) => {
  const { watch, flow, claims, sent } = unit(t)
  await watch.update(true)
  await flow(284)
  assert.equal(watch.isOn, false)
  await flow(290)
  assert.deepEqual([watch.isOn, [...watch.queues]], [true, ['q']])
  await claims(34)
  assert.equal(watch.isOn, true)
  assert.deepEqual(sent, ['wake.fleet', 'busy.mark'])
  await claims(33)
  assert.equal(watch.isOn, false)
  assert.equal(sent.at(-1), 'busy.clear')
})

test('where handlers take long a watch begins with fewer announcements, and claims a little less often than jobs come', async (t) => {
  const { watch, flow, claims, sent } = unit(t, { handlerMs: 100 })
  await watch.update(true)
  await flow(48)
  assert.deepEqual([watch.isOn, watch.distanceMs], [false, undefined])
  await flow(52)
  assert.deepEqual([watch.isOn, watch.distanceMs], [true, 20])
  const distances: number[] = []
  for (const percent of [100, 40, 50, 20]) {
    await claims(percent)
    distances.push(Math.round(10 * watch.distanceMs!) / 10)
  }
  assert.deepEqual(distances, [5.9, 15.2, 12.1, 20], 'and the last was no reason to end it')
  await claims(33)
  assert.deepEqual([watch.distanceMs, sent.at(-1)], [undefined, 'busy.clear'])
})

test('more than 3.5 ms from claim to claim is at most a fifth of what handlers take', async (t) => {
  for (const [handlerMs, distanceMs] of [
    [0, 3.5],
    [17, 3.5],
    [50, 10],
    [60, 12],
  ] as const) {
    const { watch, begin, claims } = unit(t, { handlerMs })
    await begin()
    await claims(34)
    assert.equal(watch.distanceMs, distanceMs)
  }
})

test('a watch does not go on for jobs of other queues', async (t) => {
  const { watch, begin, claims } = unit(t)
  await begin()
  await claims(100, 'other')
  assert.equal(watch.isOn, false)
})

test('a mark is written again before it has passed', async (t) => {
  const { claims, sent, begin } = unit(t)
  await begin()
  for (let half = 0; half < 14; half++) await claims(90)
  assert.deepEqual(sent, ['wake.fleet', 'busy.mark', 'wake.fleet', 'busy.mark'])
})

test('a queue that becomes busy during a watch is watched, too', async (t) => {
  const { watch, begin, flow, sent } = unit(t)
  await begin()
  await flow(300, 'late')
  assert.deepEqual(
    [[...watch.queues], sent],
    [
      ['q', 'late'],
      ['wake.fleet', 'busy.mark'],
    ],
  )
})

test('after a watch a worker rests, so that a flow that starts and stops costs little', async (t) => {
  const { watch, clock, begin, claims, flow } = unit(t)
  await begin()
  await claims(0)
  await flow(300)
  assert.equal(watch.isOn, false)
  clock.pass(RESTS_MS)
  await flow(300)
  assert.equal(watch.isOn, false, 'the rate of a longer time')
  await flow(300)
  assert.equal(watch.isOn, true)
})

test('only a worker that is alone watches, and only a few queues', async (t) => {
  const { watch, clock, flow, join, sent } = unit(t)
  await watch.update(true)
  for (let n = 0; n < 300; n++) watch.heard('q')
  clock.pass(HALF_SECOND)
  await watch.update(false)
  assert.equal(watch.isOn, false)
  for (let n = 0; n < 180; n++) watch.heard(`q${n % 12}`)
  clock.pass(HALF_SECOND)
  await watch.update(true)
  assert.equal(watch.isOn, false, 'eight of them are announced 240 times a second')
  join()
  await flow(300)
  assert.deepEqual([watch.isOn, sent], [false, ['wake.fleet']], 'no mark, and none of another worker cleared')
})

test('after a watch claims follow in growing distances, until the poll', async (t) => {
  const { watch, clock, begin } = unit(t)
  assert.equal(watch.claimsInMs, Number.POSITIVE_INFINITY)
  await begin()
  await watch.end()
  const waits: number[] = []
  for (let wait = watch.claimsInMs; wait < Number.POSITIVE_INFINITY; wait = watch.claimsInMs) {
    assert.deepEqual([...watch.queues], ['q'])
    waits.push(Math.round(wait))
    clock.pass(wait)
  }
  assert.deepEqual(waits, [5, 5, 10, 20, 40, 80, 160, 320, 640])
  assert.deepEqual([...watch.queues], [])
})

test('a mark whose reply is lost is in force, and is written again; a watch ends when its mark is known to be gone', async (t) => {
  let isLost = false
  const { watch, begin, claims, sent } = unit(t, { fails: () => isLost })
  await begin()
  isLost = true
  await assert.rejects(watch.end(), /no reply/)
  assert.equal(watch.isOn, true)
  watch.cleared()
  await assert.rejects(claims(90), /no reply/)
  assert.equal(watch.isOn, true)
  isLost = false
  sent.length = 0
  await claims(90)
  assert.deepEqual(sent, ['wake.fleet', 'busy.mark'])
})
