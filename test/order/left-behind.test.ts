// A sweep or a release returns a run while another transaction has one of its jobs locked. That one is left under its claim, and what
// was in front of it may become a dead letter. It must not start behind that.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type { Lane } from '../../src/db/lane.ts'
import { assertLease } from '../../src/effects/lease.ts'
import { claimSuspects, newClaimId, releaseClaim } from '../../src/jobs/claim.ts'
import { complete, completeWithin } from '../../src/jobs/completion.ts'
import { sweep } from '../../src/jobs/housekeeping.ts'
import { type ClaimedJob, type JobId, leaseOf } from '../../src/jobs/job.ts'
import { cancel, redrive } from '../../src/jobs/operator.ts'
import { settle } from '../../src/jobs/outcome.ts'
import { type TestDatabase, waitUntilBlocked } from '../support/database.ts'
import {
  broken,
  bury,
  claimRun,
  enqueueInKey,
  idsOf,
  nothingLeft,
  type OnDeadLetter,
  orderedQueue,
  stopsIn,
} from '../support/order.ts'
import { completeAll, findJobRow, jobRow, LEASE_MS, newWorker, session } from '../support/queue.ts'

const worker = newWorker()

/** Another transaction locks the job. Returns what ends it. */
async function locked(db: TestDatabase, id: JobId): Promise<() => Promise<unknown>> {
  const { client } = await session(db)
  await client.query('begin')
  await client.query('select from leasehold.job where id = $1 for update', [id])
  return () => client.query('rollback')
}

async function claimSuspect(lane: Lane): Promise<ClaimedJob[]> {
  return claimSuspects(lane, { claimId: newClaimId(), worker, kinds: ['mail'], limit: 5, leaseMs: LEASE_MS }, ['mail'])
}

/** A sweep, which must not wait for a job. */
async function sweepAtOnce(db: TestDatabase) {
  const sweeper = await session(db)
  const swept = sweep(sweeper.lane)
  const waits = waitUntilBlocked(await db.connect(), sweeper.pid).then(() => assert.fail('the sweep waits'))
  const answer = await Promise.race([swept, waits])
  await sweeper.client.end()
  return answer
}

/** Claims and completes until nothing can be claimed. Returns what ran. */
async function workOff(lane: Lane): Promise<JobId[]> {
  const ran: JobId[] = []
  for (;;) {
    const run = await claimRun(lane, { worker })
    if (run.length === 0) run.push(...(await claimSuspect(lane)))
    if (run.length === 0) return ran
    ran.push(...idsOf(run))
    await completeAll(lane, worker, run)
  }
}

for (const place of [1, 2]) {
  test(`a head is buried only when nothing behind it in its run is locked (job ${place + 1} of 3)`, async (t) => {
    const { db, lane } = await orderedQueue(t)
    const ids = await enqueueInKey(lane, 3, { maxAttempts: 1 })
    const run = await claimRun(lane, { worker })
    const unlock = await locked(db, ids[place]!)
    await db.clock.advance('31 s')
    await sweepAtOnce(db)
    assert.equal((await jobRow(db, ids[0]!)).status, 'processing', 'it would leave a job that is claimed behind it')
    assert.equal((await jobRow(db, ids[place]!)).status, 'processing')
    assert.equal((await jobRow(db, ids[3 - place]!)).label, 'blocked', 'the other was returned')
    assert.deepEqual(await broken(db), [])
    await unlock()
    assert.deepEqual((await complete(lane, worker, [run[place]!])).busy, [leaseOf(run[place]!)], 'not before the head')
    await db.clock.advance('2 s')
    const { jobs } = await sweepAtOnce(db)
    assert.deepEqual(new Map(jobs.map(({ jobId, outcome }) => [jobId, outcome])).get(ids[0]!), 'dead_letter')
    const rows = await Promise.all(ids.slice(1).map((id) => jobRow(db, id)))
    assert.deepEqual(
      rows.map(({ label, attempts, crashes }) => [label, attempts, crashes]),
      [
        ['blocked', 0, 0],
        ['blocked', 0, 0],
      ],
    )
    assert.deepEqual(await broken(db), [])
    assert.deepEqual(await workOff(lane), [])
    await redrive(lane, [ids[0]!])
    assert.deepEqual(await workOff(lane), ids)
    await nothingLeft(db)
  })
}

test('a sweep waits for no transaction that holds the lease of a job whose head is to be cancelled or buried', async (t) => {
  for (const outcome of ['cancelled', 'dead_letter']) {
    const { db, lane } = await orderedQueue(t)
    const ids = await enqueueInKey(lane, 3, { maxAttempts: 1 })
    const run = await claimRun(lane, { worker })
    if (outcome === 'cancelled') await cancel(lane, [ids[0]!])
    const holder = await session(db)
    await holder.client.query('begin')
    await assertLease(holder.lane.within(holder.client), leaseOf(run[1]!))
    await db.clock.advance('31 s')
    await sweepAtOnce(db)
    assert.deepEqual(await broken(db), [])
    await holder.client.query('commit')
    await db.clock.advance('2 s')
    await sweepAtOnce(db)
    assert.equal((await jobRow(db, ids[0]!)).status, outcome)
    assert.deepEqual(await broken(db), [])
    if (outcome === 'dead_letter') await redrive(lane, [ids[0]!])
    assert.deepEqual(await workOff(lane), outcome === 'cancelled' ? ids.slice(1) : ids)
    await nothingLeft(db)
  }
})

/** Jobs 1, 2 and 3 were claimed; 1 and 3 were swept, and 1 was claimed again and is a dead letter. Job 2 is left under its first claim. */
async function leftBehindDeadLetter(t: TestContext, onDeadLetter: OnDeadLetter) {
  const { db, lane } = await orderedQueue(t, onDeadLetter)
  const ids = await enqueueInKey(lane, 3)
  const run = await claimRun(lane, { worker })
  const unlock = await locked(db, ids[1]!)
  await db.clock.advance('31 s')
  assert.equal((await sweep(lane)).jobs.length, 2)
  await unlock()
  const [head] = await claimSuspect(lane)
  assert.equal(head?.jobId, ids[0])
  await bury(lane, worker, head!)
  assert.equal((await jobRow(db, ids[1]!)).status, 'processing')
  assert.deepEqual(await broken(db), [])
  return { db, lane, ids, left: run[1]! }
}

const returns = {
  'a release': async (_db: TestDatabase, lane: Lane, left: ClaimedJob) =>
    settle(lane, worker, [{ ...left, verb: 'release' }]),
  'a snooze': async (_db: TestDatabase, lane: Lane, left: ClaimedJob) =>
    settle(lane, worker, [{ ...left, verb: 'snooze', delayMs: 0 }]),
  'a failure': async (_db: TestDatabase, lane: Lane, left: ClaimedJob) =>
    settle(lane, worker, [{ ...left, verb: 'fail', error: 'x', delayMs: 0 }]),
  'the release of its claim': async (_db: TestDatabase, lane: Lane, left: ClaimedJob) =>
    releaseClaim(lane, worker, left.claimId),
  'the next sweep': async (db: TestDatabase) => {
    await db.clock.advance('2 s')
    await sweepAtOnce(db)
  },
}

for (const [name, giveBack] of Object.entries(returns)) {
  test(`a job that a sweep left behind what is a dead letter now waits there after ${name}`, async (t) => {
    for (const onDeadLetter of ['block', 'park'] as const) {
      const { db, lane, ids, left } = await leftBehindDeadLetter(t, onDeadLetter)
      assert.deepEqual((await complete(lane, worker, [left])).busy, [leaseOf(left)], 'it is not recorded')
      await giveBack(db, lane, left)
      assert.deepEqual(await broken(db), [])
      assert.deepEqual(await workOff(lane), [], `${onDeadLetter}: nothing starts behind the dead letter`)
      const { status, reason } = await jobRow(db, ids[1]!)
      assert.deepEqual([status, reason], onDeadLetter === 'park' ? ['dead_letter', 'parked'] : ['pending', null])
      await redrive(lane, [ids[0]!])
      assert.deepEqual(await broken(db), [])
      assert.deepEqual(await workOff(lane), ids, onDeadLetter)
      await nothingLeft(db)
    }
  })
}

test('a job that a sweep left behind a dead letter does not expire there: its handler may have started', async (t) => {
  const { db, ids } = await leftBehindDeadLetter(t, 'block')
  await db.pool.query("update leasehold.job set expires_at = leasehold.clock() + interval '1 h' where id = $1", [
    ids[1],
  ])
  await db.clock.advance('2 s')
  await sweepAtOnce(db)
  const { rows } = await db.pool.query('select claim_id, expires_at from leasehold.job where id = $1', [ids[1]])
  assert.deepEqual(rows, [{ claim_id: null, expires_at: null }])
})

test('claims write nothing about a key whose first job is locked, or was left behind a dead letter', async (t) => {
  const checks = async (db: TestDatabase) =>
    (await db.pool.query<{ id: string }>('select id from leasehold.order_check')).rows
  const claimAndCompare = async (db: TestDatabase, lane: Lane) => {
    const before = await checks(db)
    assert.equal(before.length, 1)
    for (let claims = 0; claims < 5; claims++) assert.deepEqual(await claimRun(lane, { worker }), [])
    assert.deepEqual(await checks(db), before)
  }
  {
    const { db, lane } = await orderedQueue(t)
    const ids = await enqueueInKey(lane, 3)
    const run = await claimRun(lane, { worker, runLength: 2 })
    const unlock = await locked(db, ids[1]!)
    await completeAll(lane, worker, run.slice(0, 1))
    await claimAndCompare(db, lane)
    await unlock()
    await completeAll(lane, worker, run.slice(1))
    assert.deepEqual(await workOff(lane), ids.slice(2))
    await nothingLeft(db)
  }
  const { db, lane, ids, left } = await leftBehindDeadLetter(t, 'park')
  await claimAndCompare(db, lane)
  await settle(lane, worker, [{ ...left, verb: 'release' }])
  assert.deepEqual(await workOff(lane), [])
  assert.equal((await jobRow(db, ids[1]!)).reason, 'parked')
})

test('the release of a claim waits for no locked job: what was to be cancelled is so when all are free', async (t) => {
  const { db, lane } = await orderedQueue(t)
  const ids = await enqueueInKey(lane, 3)
  const run = await claimRun(lane, { worker })
  await cancel(lane, [ids[0]!])
  const unlock = await locked(db, ids[1]!)
  const releaser = await session(db)
  const released = releaseClaim(releaser.lane, worker, run[0]!.claimId)
  const waits = waitUntilBlocked(await db.connect(), releaser.pid).then(() => assert.fail('the release waits'))
  assert.deepEqual(idsOf(await Promise.race([released, waits])), [ids[2]])
  await releaser.client.end()
  assert.deepEqual(await broken(db), [])
  await unlock()
  assert.deepEqual(idsOf(await releaseClaim(lane, worker, run[0]!.claimId)).sort(), ids.slice(0, 2))
  assert.equal((await jobRow(db, ids[0]!)).status, 'cancelled')
  assert.deepEqual(await workOff(lane), ids.slice(1))
  await nothingLeft(db)
})

test('a job that was left behind is completed in a transaction while what is in front is redriven: that comes first', async (t) => {
  const { db, lane, ids, left } = await leftBehindDeadLetter(t, 'block')
  const { client, arrived, open, ...gated } = await stopsIn(db, 'advance', '  with moved as (')
  await client.query('begin')
  const completed = completeWithin(gated.lane.within(client), worker, left)
  await arrived()
  await redrive(lane, [ids[0]!])
  await open()
  await completed
  await client.query('commit')
  assert.deepEqual(await broken(db), [])
  assert.deepEqual(await workOff(lane), [ids[0], ids[2]])
  await nothingLeft(db)
})

test('a claim of which a part was released is marked: what is left is behind a job of another claim', async (t) => {
  const { db, lane } = await orderedQueue(t)
  const ids = await enqueueInKey(lane, 3)
  const run = await claimRun(lane, { worker })
  const unlock = await locked(db, ids[1]!)
  assert.equal((await releaseClaim(lane, worker, run[0]!.claimId)).length, 2)
  assert.deepEqual(await broken(db), [])
  const again = await claimRun(lane, { worker })
  assert.deepEqual(idsOf(again), [ids[0]])
  assert.deepEqual(await broken(db), [])
  await bury(lane, worker, again[0]!)
  assert.deepEqual(await broken(db), [])
  await unlock()
  assert.deepEqual((await complete(lane, worker, [run[1]!])).busy, [leaseOf(run[1]!)])
  assert.equal((await releaseClaim(lane, worker, run[0]!.claimId)).length, 1)
  assert.deepEqual(await broken(db), [])
  assert.deepEqual(await workOff(lane), [])
  assert.equal(await findJobRow(db, ids[1]!).then((row) => row?.label), 'blocked')
  await redrive(lane, [ids[0]!])
  assert.deepEqual(await workOff(lane), ids)
  await nothingLeft(db)
})
