// A handler that runs longer than its lease: renewed, it keeps the job; not renewed, it is aborted and its outcome refused.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { handle, kind, LeaseLostError } from '../../src/index.ts'
import { gate } from '../support/gate.ts'
import { movableTimers } from '../support/movable-clock.ts'
import { jobRow } from '../support/queue.ts'
import { until } from '../support/until.ts'
import { collect, next, nothingHeld, scene, unanswered } from '../support/worker.ts'

const task = kind<number>('task')
const LEASE_MS = 30_000
/** Of a lease, and a little more: then it is renewed. */
const A_THIRD = { ms: 10_100, text: '10.1 s' }

test('a handler that runs for three leases is renewed, and completes its job, which no other worker could claim', async (t) => {
  const clock = movableTimers(t)
  const underWay = unanswered(t)
  const { lh, db, worker, leasehold } = await scene(t)
  const [started, finish] = [gate(), gate()]
  const signals: AbortSignal[] = []
  const busy = worker([
    handle(task, async ({ signal }) => {
      signals.push(signal)
      started.open()
      await finish.opened
      return 'done'
    }),
  ])
  const completed = next(busy, 'completed')
  const { jobId } = await lh.enqueue(task, 1)
  await started.opened
  // It sweeps at every look, and would claim the job at once.
  const rival: string[] = []
  worker([handle(task, ({ id }) => void rival.push(id))], { sweep: 100, poll: 20 }, leasehold())
  for (let third = 1; third <= 9; third++) {
    // Not while a statement is in flight: it would miss its deadline, and a renewal would then be uncertain.
    await until('no statement is on its way', () => {
      if (underWay() > 0) return false
      clock.pass(A_THIRD.ms)
      return true
    })
    await until('the lease is renewed', async () => {
      const { rows } = await db.pool.query(
        "select expires_at > leasehold.clock() + interval '25 s' as renewed from leasehold.claim",
      )
      return rows.length === 1 && rows[0].renewed === true
    })
    await db.clock.advance(A_THIRD.text)
  }
  assert.equal(signals[0]!.aborted, false)
  finish.open()
  await completed
  const { status, attempts, lease_generation, result } = await jobRow(db, jobId)
  assert.deepEqual([status, attempts, lease_generation, result], ['completed', 1, '1', 'done'])
  assert.deepEqual(rival, [])
})

test('a handler whose lease cannot be renewed is aborted, another worker completes, and its own completion is refused', async (t) => {
  const clock = movableTimers(t)
  const { lh, db, worker, leasehold } = await scene(t)
  const [started, finish] = [gate(), gate()]
  const signals: AbortSignal[] = []
  const stale = worker(
    [
      handle(task, async ({ signal }) => {
        signals.push(signal)
        started.open()
        await finish.opened
        return 'too late'
      }),
    ],
    { concurrency: 1, prefetch: 0 }, // It has no room for the job a second time.
  )
  const [aborted, refused, completed] = [next(stale, 'aborted'), next(stale, 'refused'), collect(stale, 'completed')]
  const { jobId } = await lh.enqueue(task, 1)
  await started.opened
  const locker = await db.connect()
  const { rows } = await locker.query('select pg_backend_pid() as pid')
  await locker.query('begin; select from leasehold.claim for update')
  clock.pass(LEASE_MS / 3 + 100)
  const renewals = async () => {
    const waiting = await db.pool.query(
      'select count(*)::int as count from pg_stat_activity where $1 = any (pg_blocking_pids(pid))',
      [rows[0].pid],
    )
    return waiting.rows[0].count as number
  }
  await until('a renewal waits for the row', async () => (await renewals()) > 0)
  assert.equal(signals[0]!.aborted, false, 'the lease has two thirds left')
  clock.pass((LEASE_MS * 2) / 3)
  assert.equal((await aborted).reason, 'lease_lost')
  assert.ok(signals[0]!.reason instanceof LeaseLostError)
  assert.equal((await jobRow(db, jobId)).status, 'processing', 'nobody else has it yet')

  await until('no renewal waits any more', async () => (await renewals()) === 0)
  await db.clock.advance('31 s')
  await locker.query('rollback')
  const other = leasehold()
  const second = handle(task, () => 'in time')
  await until('another worker completes it', async () => (await other.drain([second])).completed === 1)
  finish.open()
  assert.deepEqual([(await refused).jobId, (await refused).outcome], [jobId, 'complete'])
  const { status, lease_generation, result } = await jobRow(db, jobId)
  assert.deepEqual([status, lease_generation, result], ['completed', '2', 'in time'])
  assert.deepEqual(completed, [])
  await stale.stop()
  await nothingHeld(db)
})
