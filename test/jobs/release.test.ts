// A claim whose reply was lost is released whole: its jobs never started.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { Lane } from '../../src/db/lane.ts'
import { claim, newClaimId, releaseClaim, releaseWhole } from '../../src/jobs/claim.ts'
import { cancel } from '../../src/jobs/operator.ts'
import { everyStart } from '../../src/jobs/scan-walk.ts'
import { ClaimLedger } from '../../src/worker/claim-ledger.ts'
import { countingDatabase } from '../support/database.ts'
import { movableTimers } from '../support/movable-clock.ts'
import { enqueueMany, jobRow, LEASE_MS, newWorker } from '../support/queue.ts'
import { until } from '../support/until.ts'

async function setUp(t: TestContext) {
  const db = await countingDatabase(t)
  return { db, lane: new Lane(db.pool) }
}

function request() {
  return { claimId: newClaimId(), worker: newWorker(), kinds: ['mail'], limit: 10, leaseMs: LEASE_MS }
}

test('a claim whose reply was lost can be released whole, without spending an attempt', async (t) => {
  const { db, lane } = await setUp(t)
  const ids = await enqueueMany(lane, 3)
  const own = request()
  await claim(lane, own, everyStart(['mail']))
  assert.deepEqual(await releaseClaim(lane, newWorker(), own.claimId), [], 'only by the worker that made it')
  const released = await releaseClaim(lane, own.worker, own.claimId)
  assert.deepEqual(released.map((lease) => lease.jobId).sort(), [...ids].sort())
  assert.ok(released.every((lease) => lease.generation === 1))
  const { rows } = await db.pool.query('select distinct status, attempts, crashes from leasehold.jobs')
  assert.deepEqual(rows, [{ status: 'pending', attempts: 0, crashes: 0 }])
  assert.equal((await db.pool.query('select from leasehold.claim')).rowCount, 0)
  assert.deepEqual(await releaseClaim(lane, own.worker, own.claimId), [], 'once')

  const second = request()
  await claim(lane, second, everyStart(['mail']))
  await cancel(lane, [ids[0]!])
  await releaseClaim(lane, second.worker, second.claimId)
  assert.equal((await jobRow(db, ids[0]!)).status, 'cancelled', 'what was to be cancelled is')
  assert.equal((await jobRow(db, ids[1]!)).status, 'pending')
})

test('a claim is released whole only when none of its jobs is locked', async (t) => {
  const { db, lane } = await setUp(t)
  const ids = await enqueueMany(lane, 3)
  const own = request()
  assert.equal(await releaseWhole(lane, own.worker, own.claimId), false, 'it may come later')
  await claim(lane, own, everyStart(['mail']))
  const holder = await db.connect()
  await holder.query('begin')
  await holder.query('select from leasehold.job where id = $1 for update', [ids[1]])
  assert.equal(await releaseWhole(lane, own.worker, own.claimId), false)
  await holder.query('rollback')
  assert.equal((await jobRow(db, ids[1]!)).status, 'processing')
  assert.equal(await releaseWhole(lane, own.worker, own.claimId), true)
  const { rows } = await db.pool.query('select distinct status, attempts, crashes from leasehold.jobs')
  assert.deepEqual(rows, [{ status: 'pending', attempts: 0, crashes: 0 }])
})

test('the worker asks again about a claim of which a job was locked', async (t) => {
  const { db, lane } = await setUp(t)
  const clock = movableTimers(t)
  const ids = await enqueueMany(lane, 3)
  const own = request()
  await claim(lane, own, everyStart(['mail']))
  const holder = await db.connect()
  await holder.query('begin')
  await holder.query('select from leasehold.job where id = $1 for update', [ids[1]])
  const ledger = new ClaimLedger(lane, own.worker, LEASE_MS, { problem: assert.fail })
  const pending = async (many: number) => {
    const { rows } = await db.pool.query("select count(*)::int as n from leasehold.jobs where status = 'pending'")
    return rows[0].n === many
  }
  ledger.start()
  ledger.release(own.claimId)
  await until('the others are released', () => pending(2))
  await holder.query('rollback')
  await until('all are released', () => {
    clock.pass(LEASE_MS / 20)
    return pending(3)
  })
  await ledger.stop()
})
