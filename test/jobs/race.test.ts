// Each race between two statements, forced: one is stopped after its snapshot is taken and before it reads a row, the
// other runs and commits, the first goes on. No sleeping, no luck.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Lane, type Row } from '../../src/db/lane.ts'
import { CLAIM } from '../../src/jobs/claim.sql.ts'
import { claim, newClaimId, releaseClaim, renew } from '../../src/jobs/claim.ts'
import { type ClaimColumn, toClaimed } from '../../src/jobs/claimed.ts'
import { complete, completeWithin } from '../../src/jobs/completion.ts'
import { SWEEP } from '../../src/jobs/housekeeping.sql.ts'
import { sweep } from '../../src/jobs/housekeeping.ts'
import { type ClaimedJob, type ClaimId, leaseOf } from '../../src/jobs/job.ts'
import { CANCEL, REDRIVE } from '../../src/jobs/operator.sql.ts'
import { cancel, redrive } from '../../src/jobs/operator.ts'
import { COMPLETE, SETTLE } from '../../src/jobs/outcome.sql.ts'
import { settle } from '../../src/jobs/outcome.ts'
import { everyStart } from '../../src/jobs/scan-walk.ts'
import { freshDatabase, type TestDatabase, waitUntilBlocked } from '../support/database.ts'
import { pause } from '../support/interleave.ts'
import {
  claimNext,
  countByStatus,
  enqueueMany,
  enqueueOne,
  jobRow,
  LEASE_MS,
  newWorker,
  session,
} from '../support/queue.ts'

const worker = newWorker()

function claimValues(limit = 10): unknown[] {
  const spots = [['mail'], [5], ['-infinity'], [0]]
  return [newClaimId(), worker.id, LEASE_MS, limit, ['mail'], ...spots, null, null, 0, 0, null, limit, 1, null]
}

const jobsOf = (rows: readonly Row<ClaimColumn>[]) => toClaimed(newClaimId(), ['mail'], rows).jobs

function completeValues(job: ClaimedJob): unknown[] {
  return [[job.jobId], [job.claimId], [null], [1000], worker.id]
}

async function setUp(t: Parameters<typeof freshDatabase>[0]): Promise<{ db: TestDatabase; lane: Lane }> {
  const db = await freshDatabase(t)
  return { db, lane: new Lane(db.pool) }
}

test('claim against claim: a row claimed since the snapshot is not claimed again', async (t) => {
  const { db, lane } = await setUp(t)
  await enqueueMany(lane, 3)
  const late = await pause(db, CLAIM, claimValues())
  const first = await claimNext(lane, { limit: 2 })
  const rows = jobsOf(await late.resume())
  assert.equal(rows.length, 1, 'only the row that the first claim left')
  assert.ok(first.every((job) => job.jobId !== rows[0]?.jobId))
  const { rows: attempts } = await db.pool.query('select distinct attempts from leasehold.job')
  assert.deepEqual(attempts, [{ attempts: 1 }])
})

test('claim against claim and complete: a finished row does not come back', async (t) => {
  const { db, lane } = await setUp(t)
  await enqueueOne(lane)
  const late = await pause(db, CLAIM, claimValues())
  const [job] = await claimNext(lane, { worker })
  await complete(lane, worker, [job!])
  assert.deepEqual(jobsOf(await late.resume()), [])
  assert.deepEqual(await countByStatus(db), { completed: 1 })
})

test('claim against claim and fail: a row postponed since the snapshot is not claimed', async (t) => {
  const { db, lane } = await setUp(t)
  const id = await enqueueOne(lane)
  const late = await pause(db, CLAIM, claimValues())
  const [job] = await claimNext(lane, { worker })
  await settle(lane, worker, [{ ...job!, verb: 'fail', error: 'x', delayMs: 60_000 }])
  assert.deepEqual(jobsOf(await late.resume()), [], 'its new time has not come')
  assert.equal((await jobRow(db, id)).lease_generation, String(job!.generation))
})

test('claim against claim and release: the generation is higher than that of the latest version', async (t) => {
  const { db, lane } = await setUp(t)
  const id = await enqueueOne(lane)
  const late = await pause(db, CLAIM, claimValues())
  const [job] = await claimNext(lane, { worker })
  await settle(lane, worker, [{ ...job!, verb: 'release' }])
  const [row] = jobsOf(await late.resume())
  assert.deepEqual([row?.jobId, row?.attempt], [id, 1])
  assert.ok(row!.generation > job!.generation)
})

test('claim against a whole claim released: the generation is higher than that of the latest version', async (t) => {
  const { db, lane } = await setUp(t)
  const id = await enqueueOne(lane)
  const late = await pause(db, CLAIM, claimValues())
  const request = { claimId: newClaimId(), worker, kinds: ['mail'], limit: 1, leaseMs: LEASE_MS }
  const [job] = await claim(lane, request, everyStart(['mail']))
  await releaseClaim(lane, worker, request.claimId)
  const [row] = jobsOf(await late.resume())
  assert.deepEqual([row?.jobId, row?.attempt], [id, 1])
  assert.ok(row!.generation > job!.generation)
})

test('claim against cancel: a cancelled row is not claimed', async (t) => {
  const { db, lane } = await setUp(t)
  const id = await enqueueOne(lane)
  const late = await pause(db, CLAIM, claimValues())
  await cancel(lane, [id])
  assert.deepEqual(jobsOf(await late.resume()), [])
  assert.deepEqual(await countByStatus(db), { cancelled: 1 })
})

test('complete against sweep and claim: the stale completion is refused although its snapshot still matched', async (t) => {
  const { db, lane } = await setUp(t)
  const id = await enqueueOne(lane)
  const [job] = await claimNext(lane, { worker })
  const late = await pause(db, COMPLETE, completeValues(job!))
  await db.clock.advance('31 s')
  await sweep(lane)
  await db.pool.query('update leasehold.job set crashes = 0') // an ordinary job again
  const [next] = await claimNext(lane)
  assert.ok(next!.generation > job!.generation)
  // The row is in the statement's snapshot with our claim; the latest version, which it locks, has another.
  const [row] = await late.resume()
  assert.equal(row?.completed, null, 'not written, and sent again it is refused')
  assert.equal((await jobRow(db, id)).status, 'processing')
  assert.equal((await complete(lane, worker, [job!])).refused.length, 1)
})

test('sweep before complete: the job is returned and the completion refused', async (t) => {
  const { db, lane } = await setUp(t)
  const id = await enqueueOne(lane)
  const [job] = await claimNext(lane, { worker })
  await db.clock.advance('31 s')
  const late = await pause(db, COMPLETE, completeValues(job!))
  assert.equal((await sweep(lane)).jobs.length, 1)
  const [row] = await late.resume()
  assert.deepEqual([row?.completed, (await complete(lane, worker, [job!])).refused.length], [null, 1])
  assert.deepEqual([(await jobRow(db, id)).status, (await jobRow(db, id)).crashes], ['pending', 1])
})

test('complete before sweep: the job is done and the sweep finds nothing to return', async (t) => {
  const { db, lane } = await setUp(t)
  await enqueueOne(lane)
  const [job] = await claimNext(lane, { worker })
  await db.clock.advance('31 s')
  const late = await pause(db, SWEEP, [100, 20_000, false])
  assert.deepEqual(
    await complete(lane, worker, [job!]),
    { refused: [], busy: [] },
    'late, but nobody took it: accepted',
  )
  const rows = await late.resume()
  assert.deepEqual(
    rows.filter((row) => row.id !== null),
    [],
  )
  assert.deepEqual(await countByStatus(db), { completed: 1 })
  const { rowCount } = await db.pool.query('select from leasehold.job_attempt')
  assert.equal(rowCount, 0, 'no crash on record')
})

test('sweep against sweep: a claim is returned once', async (t) => {
  const { db, lane } = await setUp(t)
  await enqueueMany(lane, 5)
  await claimNext(lane, { worker, limit: 5 })
  await db.clock.advance('31 s')
  const late = await pause(db, SWEEP, [100, 20_000, false])
  assert.equal((await sweep(lane)).jobs.length, 5)
  assert.deepEqual(await late.resume(), [])
  const { rows } = await db.pool.query('select distinct crashes from leasehold.job')
  assert.deepEqual(rows, [{ crashes: 1 }])
})

test('fail against cancel: the one that comes second sees the first', async (t) => {
  const { db, lane } = await setUp(t)
  const id = await enqueueOne(lane)
  const [job] = await claimNext(lane, { worker })
  const late = await pause(db, SETTLE, [[id], [job!.claimId], ['fail'], [0], ['"x"'], [null], worker.id, [null]])
  assert.equal((await cancel(lane, [id]))[0]?.outcome, 'requested')
  assert.equal((await late.resume())[0]?.outcome, 'cancelled', 'the request is on the latest version of the row')
  assert.equal((await jobRow(db, id)).status, 'cancelled')

  const other = await enqueueOne(lane)
  const [second] = await claimNext(lane, { worker })
  const lateCancel = await pause(db, CANCEL, [[other], null, null])
  await settle(lane, worker, [{ ...second!, verb: 'fail', error: 'x', delayMs: 0 }])
  const [answer] = await lateCancel.resume()
  assert.deepEqual([answer?.id, answer?.outcome], [other, 'cancelled'], 'pending by then: cancelled at once')
  assert.equal(job?.jobId, id)
})

test('redrive against an old worker: the old claim stays refused', async (t) => {
  const { db, lane } = await setUp(t)
  const id = await enqueueOne(lane, { maxAttempts: 1 })
  const [old] = await claimNext(lane, { worker })
  const late = await pause(db, COMPLETE, completeValues(old!))
  await settle(lane, worker, [{ ...old!, verb: 'fail', error: 'x', delayMs: 0 }])
  assert.equal((await jobRow(db, id)).status, 'dead_letter')
  assert.deepEqual(await redrive(lane, [id]), [id])
  assert.equal((await late.resume())[0]?.completed, null, 'not written')
  const row = await jobRow(db, id)
  assert.deepEqual([row.status, row.lease_generation, row.attempts], ['pending', String(old!.generation), 0])
  assert.equal((await complete(lane, worker, [old!])).refused.length, 1, 'same generation, but no claim')
  const [next] = await claimNext(lane)
  assert.ok(next!.generation > old!.generation)
  assert.equal((await complete(lane, worker, [old!])).refused.length, 1)
})

test('redrive against redrive: one dead letter becomes one job', async (t) => {
  const { db, lane } = await setUp(t)
  const id = await enqueueOne(lane)
  const [job] = await claimNext(lane, { worker })
  await settle(lane, worker, [{ ...job!, verb: 'bury', error: 'x', reason: 'fatal' }])
  const late = await pause(db, REDRIVE, [[id], null])
  assert.deepEqual(await redrive(lane, [id]), [id])
  assert.deepEqual(await late.resume(), [])
  assert.deepEqual(await countByStatus(db), { pending: 1 })
})

test('a completion held open in a transaction delays no other statement', async (t) => {
  const { db, lane } = await setUp(t)
  await enqueueMany(lane, 4)
  const jobs = await claimNext(lane, { worker, limit: 3 })
  const holder = await session(db)
  await holder.client.query('begin')
  await completeWithin(holder.lane, worker, jobs[0]!)

  // None of these waits; the held row returns busy, every other row is served.
  assert.deepEqual(await complete(lane, worker, jobs), {
    refused: [],
    busy: [leaseOf(jobs[0]!)],
  })
  const [other] = await claimNext(lane, { limit: 10 })
  assert.notEqual(other?.jobId, jobs[0]?.jobId)
  assert.deepEqual(await cancel(lane, [jobs[0]!.jobId]), [{ jobId: jobs[0]!.jobId, outcome: 'busy' }])
  await db.clock.advance('31 s')
  const swept = await sweep(lane)
  assert.deepEqual(
    swept.jobs.map((job) => job.jobId),
    [other?.jobId],
  )

  await holder.client.query('commit')
  assert.equal((await jobRow(db, jobs[0]!.jobId)).status, 'completed', 'the sweep could not take it away')
  assert.deepEqual((await complete(lane, worker, [jobs[0]!])).refused.length, 1)
  await db.clock.advance('2 s')
  await sweep(lane)
  const { rowCount } = await db.pool.query('select from leasehold.claim')
  assert.equal(rowCount, 0, 'the claim that was marked swept is closed by a later sweep')
})

test('a completion in a transaction that rolls back leaves the job to its claim, or to the sweep', async (t) => {
  const { db, lane } = await setUp(t)
  await enqueueOne(lane)
  const [job] = await claimNext(lane, { worker })
  const holder = await session(db)
  await holder.client.query('begin')
  await completeWithin(holder.lane, worker, job!)
  await db.clock.advance('31 s')
  assert.deepEqual((await sweep(lane)).jobs, [], 'locked')
  const { rows } = await db.pool.query<{ id: ClaimId }>('select id from leasehold.claim')
  const claims = rows.map((row) => row.id)
  assert.deepEqual(await renew(lane, worker, claims, LEASE_MS), { held: [], lost: claims }, 'its time was up')
  await holder.client.query('rollback')
  await db.clock.advance('2 s')
  assert.equal((await sweep(lane)).jobs.length, 1)
  assert.equal((await jobRow(db, job!.jobId)).status, 'pending')
})

test('claims that wait for a transaction do not keep the sweep from the others', async (t) => {
  const { db, lane } = await setUp(t)
  await enqueueMany(lane, 3)
  for (let held = 0; held < 2; held++) {
    const [job] = await claimNext(lane, { worker })
    const holder = await session(db)
    await holder.client.query('begin')
    await completeWithin(holder.lane, worker, job!)
  }
  await claimNext(lane, { worker: newWorker() })
  await db.clock.advance('31 s')
  assert.deepEqual((await sweep(lane, 2)).jobs, [], 'the two oldest are locked')
  assert.equal((await sweep(lane, 2)).jobs.length, 1)
})

test('a completion outside a transaction is refused: its lock would protect nothing', async (t) => {
  const { lane } = await setUp(t)
  await enqueueOne(lane)
  const [job] = await claimNext(lane, { worker })
  await assert.rejects(completeWithin(lane, worker, job!), { code: 'INVALID_OPTION', option: 'tx' })
})

test('a completion in a transaction waits for a sweep in flight, and then sees its result', async (t) => {
  const { db, lane } = await setUp(t)
  await enqueueOne(lane)
  const [job] = await claimNext(lane, { worker })
  await db.clock.advance('31 s')
  const sweeper = await session(db)
  const holder = await session(db)
  const observer = await db.connect()
  await sweeper.client.query('begin')
  assert.equal((await sweep(sweeper.lane)).jobs.length, 1)
  await holder.client.query('begin')
  const completion = completeWithin(holder.lane, worker, job!)
  completion.catch(() => {})
  await waitUntilBlocked(observer, holder.pid)
  await sweeper.client.query('commit')
  await assert.rejects(completion, { code: 'LEASE_LOST' })
})
