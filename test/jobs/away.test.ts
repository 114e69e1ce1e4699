// After the database was away, a sweep gives live workers one lease to return (decisions/0030).
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Lane } from '../../src/db/lane.ts'
import { claimSuspects, newClaimId, renew } from '../../src/jobs/claim.ts'
import { lookBeforeSweep, sweep } from '../../src/jobs/housekeeping.ts'
import type { ClaimedJob, Worker } from '../../src/jobs/job.ts'
import { forgive, settle } from '../../src/jobs/outcome.ts'
import { countingDatabase, type TestDatabase } from '../support/database.ts'
import { claimNext, enqueueMany, enqueueOne, jobRow, LEASE_MS, newWorker } from '../support/queue.ts'

const GAP_MS = LEASE_MS / 3

async function setUp(t: Parameters<typeof countingDatabase>[0]) {
  const db = await countingDatabase(t)
  await db.clock.set('2030-01-01T00:00:00Z')
  const lane = new Lane(db.pool)
  const look = async () => (await lookBeforeSweep(lane, GAP_MS, LEASE_MS)).wasAway
  assert.equal(await look(), false, 'nobody has looked yet')
  return { db, lane, look }
}

/** Time passes, and no sweep runs. */
async function outage(db: TestDatabase, duration: string): Promise<void> {
  await db.clock.advance(duration)
  await db.pool.query('update leasehold.sweep set looked_at = looked_at - $1::interval', [duration])
}

/** As a worker sweeps. */
async function swept(lane: Lane): Promise<number> {
  return (await sweep(lane, undefined, true)).jobs.length
}

test('leases that expired without sweeps are swept one lease later, unless their worker renews', async (t) => {
  const { db, lane, look } = await setUp(t)
  await enqueueMany(lane, 2)
  const [alive, dead] = [newWorker(), newWorker()]
  const [kept] = await claimNext(lane, { worker: alive })
  await claimNext(lane, { worker: dead })
  await outage(db, '40 s')
  assert.equal(await look(), true)
  assert.equal(await swept(lane), 0)
  assert.deepEqual(await renew(lane, alive, [kept!.claimId], LEASE_MS), { held: [kept!.claimId], lost: [] })
  await db.clock.advance('29 s')
  assert.equal(await look(), false)
  assert.equal(await swept(lane), 0, 'not before one lease is over')
  await db.clock.advance('2 s')
  await renew(lane, alive, [kept!.claimId], LEASE_MS)
  assert.equal(await look(), false)
  assert.equal(await swept(lane), 1, 'the job of the dead worker')
})

test('a restarted server counts as away, however short', async (t) => {
  const { db, lane, look } = await setUp(t)
  await enqueueOne(lane)
  await claimNext(lane)
  await db.clock.advance('25 s')
  await outage(db, '6 s')
  await db.pool.query("update leasehold.sweep set server_started = server_started - interval '1 hour'")
  assert.equal(await look(), true)
  assert.equal(await swept(lane), 0)
  assert.equal(await look(), false)
  assert.equal(await swept(lane), 0)
  await db.clock.advance('31 s')
  await look()
  assert.equal(await swept(lane), 1)
})

test('a worker that sweeps seldom reclaims at its next sweep the leases expired at its last', async (t) => {
  const { db, lane, look } = await setUp(t)
  await enqueueOne(lane)
  await claimNext(lane)
  for (const expected of [0, 1]) {
    await outage(db, '5 minutes')
    assert.equal(await look(), true)
    assert.equal(await swept(lane), expected)
  }
})

test('a hold that a clock an hour ahead has set does not last an hour', async (t) => {
  const { db, lane, look } = await setUp(t)
  await enqueueOne(lane)
  await claimNext(lane)
  await outage(db, '1 hour')
  assert.equal(await look(), true)
  await db.clock.set('2030-01-01T00:00:40Z')
  assert.equal(await look(), false)
  assert.equal(await swept(lane), 1)
})

async function sweptAlone(lane: Lane, db: TestDatabase): Promise<{ job: ClaimedJob; worker: Worker }> {
  await enqueueOne(lane)
  const worker = newWorker()
  const [job] = await claimNext(lane, { worker })
  await db.clock.advance('31 s')
  assert.equal((await sweep(lane)).jobs.length, 1)
  return { job: job!, worker }
}

const COUNTED = ['attempts', 'crashes', 'lease_generation'] as const
async function counted(db: TestDatabase, job: ClaimedJob): Promise<unknown[]> {
  const row = await jobRow(db, job.jobId)
  return COUNTED.map((column) => row[column])
}

test('a worker that was cut off and returns gets its attempt and crash back, once', async (t) => {
  const { db, lane } = await setUp(t)
  const { job, worker } = await sweptAlone(lane, db)
  assert.deepEqual(await counted(db, job), [1, 1, '1'], 'it was alone, so it was blamed')
  assert.deepEqual((await settle(lane, worker, [{ ...job, verb: 'release' }]))[0]!.outcome, 'refused')
  assert.deepEqual(await forgive(lane, [job]), [true])
  assert.deepEqual(await counted(db, job), [0, 0, '1'])
  assert.deepEqual(await forgive(lane, [job]), [false])
  assert.deepEqual(await counted(db, job), [0, 0, '1'])
  const { rows } = await db.pool.query('select outcome::text from leasehold.job_attempt')
  assert.deepEqual(rows, [{ outcome: 'released' }])
  assert.equal((await claimNext(lane))[0]?.jobId, job.jobId, 'it is no suspect')
})

test('the second crash of a job is taken back once, and the first stays', async (t) => {
  const { db, lane } = await setUp(t)
  const { job } = await sweptAlone(lane, db)
  const request = { claimId: newClaimId(), worker: newWorker(), kinds: ['mail'], limit: 1, leaseMs: LEASE_MS }
  const [again] = await claimSuspects(lane, request, ['mail'])
  assert.equal(again!.jobId, job.jobId)
  await db.clock.advance('31 s')
  assert.equal((await sweep(lane)).jobs.length, 1)
  assert.deepEqual(await counted(db, job), [2, 2, '2'])
  assert.deepEqual(await forgive(lane, [again!]), [true])
  for (const late of [again!, job]) {
    assert.deepEqual(await forgive(lane, [late]), [false])
    assert.deepEqual(await counted(db, job), [1, 1, '2'])
  }
})

test('a job that was claimed again, or is being claimed, is not forgiven', async (t) => {
  const { db, lane } = await setUp(t)
  const { job } = await sweptAlone(lane, db)
  const other = await db.connect()
  await other.query('begin')
  await other.query('select from leasehold.job where id = $1 for update', [job.jobId])
  assert.deepEqual(await forgive(lane, [job]), [false])
  await other.query(
    'update leasehold.job set claim_id = 7, claimed_at = now(), lease_generation = 2, attempts = 2 where id = $1',
    [job.jobId],
  )
  await other.query('commit')
  assert.deepEqual(await forgive(lane, [job]), [false])
  assert.deepEqual(await counted(db, job), [2, 1, '2'])
})

test('a later crash is not taken back by the worker of an earlier one', async (t) => {
  const { db, lane } = await setUp(t)
  const { job } = await sweptAlone(lane, db)
  await db.pool.query('update leasehold.job set lease_generation = 2, attempts = 2, crashes = 2 where id = $1', [
    job.jobId,
  ])
  assert.deepEqual(await forgive(lane, [job]), [false])
  assert.deepEqual(await counted(db, job), [2, 2, '2'])
})
