// A worker with a backlog must still stop, share, and recover from errors.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { handle, kind } from '../../src/index.ts'
import { gate } from '../support/gate.ts'
import { until } from '../support/until.ts'
import { collect, count, isClaim, isCompletion, nothingHeld, scene, statements } from '../support/worker.ts'

const task = kind<number>('task')
const other = kind<number>('other')
const numbers = (length: number) => Array.from({ length }, (_, input) => ({ input }))

test('a worker in the middle of a backlog stops, and leaves nothing behind', async (t) => {
  const { lh, db, worker } = await scene(t)
  await lh.enqueueMany(task, numbers(10_000))
  await lh.enqueueMany(task, numbers(10_000))
  const busy = worker([handle(task, () => {})])
  const problems = collect(busy, 'problem')
  await until('it is at full speed', () => busy.tally.completed > 2_000)
  await busy.stop()
  assert.deepEqual(problems, [])
  await nothingHeld(db)
  assert.equal(await count(db, 'from leasehold.job'), 20_000 - busy.tally.completed)
})

test('an outcome that the server refuses delays its own batch only', async (t) => {
  const { lh, db, worker } = await scene(t)
  await db.pool.query(`alter table leasehold.archive add constraint not_13 check (result is distinct from '13')`)
  await lh.enqueueMany(task, numbers(8_000))
  const names = statements(t)
  const busy = worker([handle(task, ({ input }) => (input === 13 ? 13 : undefined))])
  await until('all but one are completed', () => busy.tally.completed === 7_999)
  assert.equal(busy.tally.retrying, 1)
  const sent = names.filter(isCompletion).length
  assert.ok(sent < 4_000, `${sent} statements for 8000 outcomes`)
})

test('one job at a time is one statement a job: it completes the last and claims the next', async (t) => {
  const { lh, worker } = await scene(t)
  await lh.enqueueMany(task, numbers(200))
  const names = statements(t)
  const busy = worker([handle(task, () => {})], { concurrency: 1, prefetch: 0, poll: '1h' })
  await until('all are completed', () => busy.tally.completed === 200)
  const sent = names.filter((name) => isClaim(name) || isCompletion(name))
  // Two more for the first and the last, and a claim or two that went alone when the worker began to listen.
  assert.ok(sent.length <= 210, `${sent.length} statements for 200 jobs`)
  const closings = names.filter((name) => name === 'claim.close').length
  assert.ok(closings <= 20, `${closings} times claims were closed`)
})

test('an outcome that the server refuses does not fail the claim sent with it', async (t) => {
  const { lh, db, worker } = await scene(t)
  await db.pool.query(`alter table leasehold.archive add constraint not_3 check (result is distinct from '3')`)
  await lh.enqueueMany(task, numbers(20))
  const run = ({ input }: { readonly input: number }) => (input === 3 ? 3 : undefined)
  const busy = worker([handle(task, run)], { concurrency: 1, prefetch: 0, poll: '1h' })
  const problems = collect(busy, 'problem')
  await until('all but one are completed', () => busy.tally.completed === 19 && busy.tally.retrying === 1)
  assert.deepEqual(problems, [])
})

test('a kind with a limit of its own goes on beside a long job of another', async (t) => {
  const { lh, worker } = await scene(t)
  const long = gate()
  await lh.enqueue(other, 0)
  await lh.enqueueMany(task, numbers(300))
  const busy = worker([handle(other, () => long.opened), handle(task, () => {}, { concurrency: 1 })], { poll: '1m' })
  await until('all of the limited kind are completed', () => busy.tally.completed === 300)
  long.open()
  await until('the long one is completed', () => busy.tally.completed === 301)
})

test('a kind with a limit of its own claims along with its completions', async (t) => {
  const { lh, worker } = await scene(t)
  await lh.enqueueMany(task, numbers(50))
  const names = statements(t)
  const busy = worker([handle(task, () => {}, { concurrency: 1 })], { concurrency: 10, poll: '1h' })
  await until('all are completed', () => busy.tally.completed === 50)
  assert.ok(names.filter((name) => name === 'job.turn').length >= 40, String(names))
})

test('of two queues with a backlog neither fills the worker', async (t) => {
  const { lh, worker } = await scene(t)
  for (const one of [task, other]) await lh.enqueueMany(one, numbers(50))
  const end = gate()
  const busy = worker([handle(task, () => end.opened), handle(other, () => end.opened)], { concurrency: 10 })
  const started = collect(busy, 'started')
  await until('it is full', () => started.length === 10)
  assert.deepEqual([...new Set(started.map((job) => job!.kind))].sort(), ['other', 'task'])
  end.open()
})
