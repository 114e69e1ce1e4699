// Looks that are slow, or only seem to be: what the worker reports to its cursors.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { Session } from '../../src/db/session.ts'
import { handle, kind } from '../../src/index.ts'
import { type Asked, ScanCursors } from '../../src/jobs/scan-cursors.ts'
import { movableClock } from '../support/movable-clock.ts'
import { until } from '../support/until.ts'
import { next, scene } from '../support/worker.ts'

const task = kind<number>('task')
const AGES_MS = 10_000_000

/** The starts that the cursors of this process requested from now on. */
function asked(t: TestContext): Asked[] {
  const all: Asked[] = []
  const original = ScanCursors.prototype.next
  t.mock.method(ScanCursors.prototype, 'next', function (this: ScanCursors, ...args: Parameters<typeof original>) {
    const one = original.apply(this, args)
    all.push(one)
    return one
  })
  return all
}

const isSlice = ({ walk }: Asked) => 'queues' in walk && walk.dueForMs !== undefined

test('a look that does not come to an end is followed by slices of it, and new jobs are found', async (t) => {
  const clock = movableClock(t)
  const { lh, db, worker } = await scene(t)
  const walks = asked(t)
  const busy = worker([handle(task, () => {})], { poll: 20 })
  await until('it has looked', () => walks.length > 0)
  const completed = next(busy, 'completed')
  const locker = await db.connect()
  await locker.query('begin; lock table leasehold.job')
  const waiting = "datname = current_database() and query like '-- job.claim\n%' and wait_event_type = 'Lock'"
  await until('a slice is asked for', async () => {
    const { rows } = await db.pool.query(`select pid from pg_stat_activity where ${waiting}`)
    if (rows.length === 0 || walks.some(isSlice)) return walks.some(isSlice)
    clock.pass(5_000)
    await db.pool.query('select pg_cancel_backend($1)', [rows[0].pid])
    return false
  })
  await locker.query('commit')
  await lh.enqueue(task, 1)
  await completed
})

test('network latency does not count as the duration of a look', async (t) => {
  const clock = movableClock(t)
  const { worker } = await scene(t)
  const prices: number[] = []
  const learn = ScanCursors.prototype.learn
  t.mock.method(ScanCursors.prototype, 'learn', function (this: ScanCursors, ...args: Parameters<typeof learn>) {
    prices.push(args[1].walkMs)
    return learn.apply(this, args)
  })
  const { query } = Session.prototype
  t.mock.method(Session.prototype, 'query', async function (this: Session, ...args: Parameters<typeof query>) {
    const answer = await query.apply(this, args)
    if (args[0].text.startsWith('-- job.claim\n')) clock.pass(AGES_MS)
    return answer
  })
  worker([handle(task, () => {})], { poll: 20 })
  await until('it has looked', () => prices.length > 1)
  assert.ok(Math.max(...prices) < AGES_MS)
})
