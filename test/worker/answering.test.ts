// A worker's response to a wake-up or a call for help, by its eagerness. It polls once a minute, so a job that starts
// was announced.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { handle, kind } from '../../src/index.ts'
import { ScanCursors } from '../../src/jobs/scan-cursors.ts'
import { Eagerness } from '../../src/worker/eagerness.ts'
import { until } from '../support/until.ts'
import { next, notifications, scene, statements } from '../support/worker.ts'

const task = kind<number>('task')

/** An idle worker that listens. */
async function idle(t: TestContext) {
  const setting = await scene(t)
  const { db, undo } = setting
  const [names, heard] = [statements(undo), notifications(undo)]
  const busy = setting.worker([handle(task, () => {})], { poll: '1m' })
  await next(busy, 'wakeup')
  await until('it has claimed since it listens', () => {
    const joined = names.indexOf('busy.clear')
    return joined !== -1 && names.indexOf('job.claim', joined) !== -1
  })
  /** Nothing was sent during fifty round trips. */
  const asleep = async () => {
    for (let trips = 0, sent = names.length; trips < 50; trips++) {
      await db.pool.query('select 1')
      if (names.length > sent) [trips, sent] = [0, names.length]
    }
  }
  await asleep()
  const tell = (topic: string) => db.pool.query("select leasehold.tell($1, 'task')", [topic])
  const claims = () => names.filter((name) => name === 'job.claim').length
  return { ...setting, busy, asleep, heard, tell, claims }
}

test('a wake-up may be ignored by eagerness, a call for help is not', async (t) => {
  t.mock.method(Eagerness.prototype, 'answerAfterMs', () => Number.POSITIVE_INFINITY)
  // On a busy machine a look that is due may come after fifty round trips.
  t.mock.method(ScanCursors.prototype, 'lookDueInMs', () => Number.POSITIVE_INFINITY)
  const { lh, busy, heard, tell, claims, asleep } = await idle(t)
  const completed = next(busy, 'completed')
  const before = claims()
  await lh.enqueue(task, 1)
  await until('it has heard', () => heard.includes('leasehold.wake task'))
  await asleep()
  assert.equal(claims(), before)
  await tell('help')
  await completed
})

test('a wake-up may be answered later', async (t) => {
  t.mock.method(Eagerness.prototype, 'answerAfterMs', () => 1)
  const { lh, busy } = await idle(t)
  const completed = next(busy, 'completed')
  await lh.enqueue(task, 1)
  await completed
})

test('answers with and without a job are counted, and the worker’s own looks are not', async (t) => {
  const inVain = t.mock.method(Eagerness.prototype, 'inVain').mock
  const found = t.mock.method(Eagerness.prototype, 'found').mock
  const { lh, tell } = await idle(t)
  assert.deepEqual([inVain.callCount(), found.callCount()], [0, 0])
  await tell('wake')
  await until('it has answered in vain', () => inVain.callCount() > 0)
  await lh.enqueue(task, 1)
  await until('it has found a job', () => found.callCount() > 0)
})

test('a single worker calls no other, however much it finds', async (t) => {
  const { lh, undo, worker } = await scene(t)
  const names = statements(undo)
  const jobs = Array.from({ length: 20 }, (_, input) => ({ input }))
  await lh.enqueueMany(task, jobs)
  const busy = worker([handle(task, () => {})], { concurrency: 2, prefetch: 0 })
  await until('all are done', () => busy.tally.completed === jobs.length)
  assert.ok(!names.includes('wake.help'))
})
