import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Lane } from '../../src/db/lane.ts'
import { claim, claimSuspects, closeClaims, newClaimId, renew } from '../../src/jobs/claim.ts'
import { complete } from '../../src/jobs/completion.ts'
import { sweep } from '../../src/jobs/housekeeping.ts'
import { type ClaimedJob, leaseOf } from '../../src/jobs/job.ts'
import { cancel, redrive } from '../../src/jobs/operator.ts'
import { settle } from '../../src/jobs/outcome.ts'
import { everyStart } from '../../src/jobs/scan-walk.ts'
import { countingDatabase } from '../support/database.ts'
import { claimNext, countByStatus, enqueueMany, enqueueOne, jobRow, LEASE_MS, newWorker } from '../support/queue.ts'

async function setUp(t: Parameters<typeof countingDatabase>[0]) {
  const db = await countingDatabase(t)
  await db.clock.set('2030-01-01T00:00:00Z')
  return { db, lane: new Lane(db.pool) }
}

function request(limit = 10, worker = newWorker()) {
  return { claimId: newClaimId(), worker, kinds: ['mail'], limit, leaseMs: LEASE_MS }
}

test('a dead worker’s jobs are claimable again after one sweep past their lease, and not before', async (t) => {
  const { db, lane } = await setUp(t)
  const id = await enqueueOne(lane)
  const [job] = await claimNext(lane)
  await db.clock.advance('29 s')
  assert.deepEqual(await sweep(lane), { claims: 0, jobs: [] })
  await db.clock.advance('2 s')
  assert.deepEqual(await sweep(lane), { claims: 1, jobs: [{ ...leaseOf(job!), outcome: 'pending' }] })
  const row = await jobRow(db, id)
  assert.deepEqual(
    [row.status, row.attempts, row.crashes, row.lease_generation],
    ['pending', 1, 1, '1'],
    'it was alone',
  )
  const [again] = await claimSuspects(lane, request(), ['mail'])
  assert.deepEqual([again?.jobId, again?.generation, again?.attempt], [id, 2, 2])
  const { rows } = await db.pool.query('select outcome, attempt from leasehold.job_attempt')
  assert.deepEqual(rows, [{ outcome: 'crashed', attempt: 1 }])
})

test('a renewed lease is not swept; one renewal covers every job of the claim', async (t) => {
  const { db, lane } = await setUp(t)
  await enqueueMany(lane, 5)
  const own = request()
  await claim(lane, own, everyStart(['mail']))
  for (let round = 0; round < 5; round++) {
    await db.clock.advance('20 s')
    assert.deepEqual(await renew(lane, own.worker, [own.claimId], LEASE_MS), { held: [own.claimId], lost: [] })
    assert.equal((await sweep(lane)).jobs.length, 0)
  }
  const { rows } = await db.pool.query('select distinct lease_expires_at from leasehold.jobs')
  assert.deepEqual(rows, [{ lease_expires_at: rows[0].lease_expires_at }])
  await db.clock.advance('31 s')
  assert.equal((await sweep(lane)).jobs.length, 5)
  assert.deepEqual(await renew(lane, own.worker, [own.claimId], LEASE_MS), { held: [], lost: [own.claimId] })
})

test('a sweep closes the claims of finished jobs and returns nothing', async (t) => {
  const { db, lane } = await setUp(t)
  await enqueueMany(lane, 3)
  const worker = newWorker()
  await complete(lane, worker, await claimNext(lane, { limit: 3, worker }))
  await db.clock.advance('31 s')
  assert.deepEqual(await sweep(lane), { claims: 1, jobs: [] })
  assert.equal((await db.pool.query('select from leasehold.claim')).rowCount, 0)
})

test('a crash loop ends as a dead letter', async (t) => {
  const { db, lane } = await setUp(t)
  const id = await enqueueOne(lane, { maxAttempts: 3 })
  await claimNext(lane)
  for (const outcome of ['pending', 'pending', 'dead_letter']) {
    await db.clock.advance('31 s')
    assert.deepEqual(
      (await sweep(lane)).jobs.map((job) => job.outcome),
      [outcome],
    )
    await claimSuspects(lane, request(), ['mail'])
  }
  const row = await jobRow(db, id)
  assert.deepEqual([row.status, row.reason, row.attempts, row.crashes], ['dead_letter', 'lease_expired', 3, 3])
})

test('a job that was to be cancelled when its worker died ends cancelled', async (t) => {
  const { db, lane } = await setUp(t)
  const id = await enqueueOne(lane)
  await claimNext(lane)
  await cancel(lane, [id])
  await db.clock.advance('31 s')
  assert.deepEqual(
    (await sweep(lane)).jobs.map((job) => job.outcome),
    ['cancelled'],
  )
  assert.equal((await jobRow(db, id)).status, 'cancelled')
})

for (const maxAttempts of [5, 1]) {
  test(`one job that kills its process among 500 ends as one dead letter, 499 complete (max attempts ${maxAttempts})`, async (t) => {
    const { db, lane } = await setUp(t)
    const ids = await enqueueMany(lane, 500, { maxAttempts })
    const poison = ids[250]
    // One process at a time: it claims, and either completes all it claimed or dies with it.
    let crashes = 0
    for (let boot = 0; ; boot++) {
      assert.ok(boot < 600, 'it ends')
      const worker = newWorker()
      const own = request(500, worker)
      let jobs: ClaimedJob[] = await claim(lane, own, everyStart(['mail']))
      if (jobs.length === 0) jobs = await claimSuspects(lane, own, ['mail'])
      if (jobs.length === 0) break
      if (jobs.some((job) => job.jobId === poison)) {
        crashes++
        await db.clock.advance('31 s')
        await sweep(lane)
      } else {
        await complete(lane, worker, jobs)
      }
    }
    assert.deepEqual(await countByStatus(db), { completed: 499, dead_letter: 1 })
    assert.equal((await jobRow(db, poison!)).status, 'dead_letter')
    assert.equal(crashes, 2 + maxAttempts, 'two in company, then every attempt alone')
  })
}

test('a job that died with its worker’s other jobs keeps its attempts, also when their leases end later', async (t) => {
  const { db, lane } = await setUp(t)
  const early = await enqueueOne(lane, { maxAttempts: 1 })
  const worker = newWorker()
  const [job] = await claim(lane, request(1, worker), everyStart(['mail']))
  await db.clock.advance('5 s')
  await enqueueMany(lane, 10)
  await claim(lane, request(10, worker), everyStart(['mail']))
  await db.clock.advance('26 s')
  assert.deepEqual((await sweep(lane)).jobs, [{ ...leaseOf(job!), outcome: 'pending' }])
  assert.equal((await jobRow(db, early)).attempts, 0, 'nobody is to blame')
  await db.clock.advance('5 s')
  assert.equal((await sweep(lane)).jobs.length, 10)
  const { rows } = await db.pool.query('select distinct attempts, crashes from leasehold.job')
  assert.deepEqual(rows, [{ attempts: 0, crashes: 1 }])
})

test('a job was not alone if another of its claim is locked when their lease is over', async (t) => {
  const { db, lane } = await setUp(t)
  const ids = await enqueueMany(lane, 2, { maxAttempts: 1 })
  await claim(lane, request(), everyStart(['mail']))
  const other = await db.connect()
  await other.query('begin')
  await other.query('select from leasehold.job where id = $1 for update', [ids[1]])
  await db.clock.advance('31 s')
  assert.deepEqual(
    (await sweep(lane)).jobs.map(({ jobId, outcome }) => [jobId, outcome]),
    [[ids[0], 'pending']],
  )
  const { attempts, crashes } = await jobRow(db, ids[0]!)
  assert.deepEqual([attempts, crashes], [0, 1])
  await other.query('rollback')
})

test('a redriven job that died with its worker is still claimed alone', async (t) => {
  const { db, lane } = await setUp(t)
  const id = await enqueueOne(lane, { maxAttempts: 1 })
  await claimNext(lane)
  await db.clock.advance('31 s')
  assert.deepEqual(
    (await sweep(lane)).jobs.map((job) => job.outcome),
    ['dead_letter'],
  )
  await redrive(lane, [id])
  await enqueueMany(lane, 5)
  assert.equal((await claimNext(lane, { limit: 10 })).length, 5)
  assert.deepEqual(
    (await claimSuspects(lane, request(), ['mail'])).map((job) => job.jobId),
    [id],
  )
})

test('suspects of one crash and of several do not starve each other', async (t) => {
  const { db, lane } = await setUp(t)
  const [old] = await enqueueMany(lane, 40)
  await db.pool.query('update leasehold.job set crashes = case when id = $1 then 2 else 1 end', [old])
  const taken: string[] = []
  for (let round = 0; round < 60 && !taken.includes(old!); round++) {
    const jobs = await claimSuspects(lane, request(1), ['mail'])
    taken.push(...jobs.map((job) => job.jobId))
  }
  assert.ok(taken.includes(old!), 'a coin that falls one way forty times is not a coin')
})

test('suspects of one queue do not keep those of another waiting', async (t) => {
  const { db, lane } = await setUp(t)
  await enqueueMany(lane, 40, { queue: 'many' })
  const lone = await enqueueOne(lane, { queue: 'one' })
  await db.pool.query('update leasehold.job set crashes = 1, lease_generation = 1')
  // Drawn for the first queue, for the second, and for those that crashed more often.
  const drawn = [0.9, 0.1, 0.1]
  const random = t.mock.method(Math, 'random', () => drawn.shift() ?? 0)
  const jobs = await claimSuspects(lane, request(), ['many', 'one'])
  random.mock.restore()
  assert.equal(jobs.length, 10)
  assert.ok(jobs.some(({ jobId }) => jobId === lone))
})

test('a snooze does not clear the suspicion: a job that snoozes and crashes by turns comes to an end', async (t) => {
  const { db, lane } = await setUp(t)
  const id = await enqueueOne(lane, { maxAttempts: 2 })
  await claimNext(lane)
  for (let round = 0; round < 10; round++) {
    await db.clock.advance('31 s')
    await sweep(lane)
    const own = request()
    const [job] = await claimSuspects(lane, own, ['mail'])
    if (job === undefined) break
    await settle(lane, own.worker, [{ ...job, verb: 'snooze', delayMs: 0 }])
    await claimSuspects(lane, request(), ['mail'])
  }
  assert.equal((await jobRow(db, id)).status, 'dead_letter')
})

test('a clock that steps back fails no renewal', async (t) => {
  const { db, lane } = await setUp(t)
  await enqueueOne(lane)
  const own = request()
  await claim(lane, own, everyStart(['mail']))
  await db.clock.advance('-1 min')
  assert.deepEqual(await renew(lane, own.worker, [own.claimId], LEASE_MS), { held: [own.claimId], lost: [] })
})

test('a ledger row that names a job twice is swept all the same', async (t) => {
  const { db, lane } = await setUp(t)
  await enqueueMany(lane, 2)
  await claimNext(lane, { limit: 2 })
  await db.pool.query('update leasehold.claim set job_ids = job_ids || job_ids')
  await db.clock.advance('31 s')
  assert.equal((await sweep(lane)).jobs.length, 2)
})

test('a failure shows that a job does not kill its worker: it is ordinary again', async (t) => {
  const { db, lane } = await setUp(t)
  const id = await enqueueOne(lane)
  await claimNext(lane)
  await db.clock.advance('31 s')
  await sweep(lane)
  assert.deepEqual(await claimNext(lane), [], 'a suspect is not claimed among others')
  const own = request()
  const [job] = await claimSuspects(lane, own, ['mail'])
  await settle(lane, own.worker, [{ ...job!, verb: 'fail', error: 'x', delayMs: 0 }])
  assert.equal((await claimNext(lane))[0]?.jobId, id)
})

test('a claim that is closed although the outcome of a job was lost is left to the sweep', async (t) => {
  const { db, lane } = await setUp(t)
  await enqueueMany(lane, 2)
  const own = request()
  const [done, lost] = await claim(lane, own, everyStart(['mail']))
  await complete(lane, own.worker, [done!])
  // The worker received the outcome completed for this one, too, and a failover has undone it.
  await closeClaims(lane, own.worker, [own.claimId])
  await db.clock.advance('31 s')
  assert.deepEqual(
    (await sweep(lane)).jobs.map(({ jobId }) => jobId),
    [lost!.jobId],
  )
})
