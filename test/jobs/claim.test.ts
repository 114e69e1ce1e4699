import assert from 'node:assert/strict'
import { test } from 'node:test'
import { InvalidOptionError } from '../../src/core/errors.ts'
import { Lane } from '../../src/db/lane.ts'
import { claim, newClaimId } from '../../src/jobs/claim.ts'
import { enqueue } from '../../src/jobs/enqueue.ts'
import type { ClaimedJob, ClaimId } from '../../src/jobs/job.ts'
import { ScanCursors } from '../../src/jobs/scan-cursors.ts'
import { everyStart } from '../../src/jobs/scan-walk.ts'
import { countGenerations, freshDatabase, suiteDatabase } from '../support/database.ts'
import {
  claimNext,
  completeAll,
  enqueueMany,
  enqueueOne,
  jobRow,
  LEASE_MS,
  newWorker,
  session,
} from '../support/queue.ts'

const db = await suiteDatabase()
await countGenerations(db)
const lane = new Lane(db.pool)

test('a claim takes a job: processing, one attempt, one generation, a lease by the database clock', async () => {
  const id = await enqueueOne(lane, { queue: 'take', metadata: { m: 1 }, partitionKey: 'k' })
  const worker = newWorker()
  const [job] = await claimNext(lane, { queues: ['take'], kinds: ['mail'], worker })
  assert.deepEqual(
    { ...job, availableAt: '', claimedAt: '', createdAt: '', claimId: '', salt: '' },
    {
      jobId: id,
      claimId: '',
      generation: 1,
      attempt: 1,
      maxAttempts: 5,
      queue: 'take',
      kind: 'mail',
      payload: '{"to": "ada"}',
      priority: 5,
      availableAt: '',
      claimedAt: '',
      createdAt: '',
      partitionKey: 'k',
      bucket: 234,
      line: 0,
      salt: '',
      metadata: '{"m": 1}',
      runFrom: null, // Its queue is not ordered.
      run: undefined,
    },
  )
  const row = await jobRow(db, id)
  assert.deepEqual([row.status, row.attempts, row.lease_generation, row.claimed_by], ['processing', 1, '1', worker.id])
  assert.equal((row.lease_expires_at as Date).getTime() - (row.claimed_at as Date).getTime(), LEASE_MS)
  assert.deepEqual(await claimNext(lane, { queues: ['take'], kinds: ['mail'] }), [], 'it is taken')
})

test('jobs come by priority, then by age, over all queues, and never more than the limit', async () => {
  const jobs = [
    { queue: 'order-a', priority: 5 },
    { queue: 'order-b', priority: 5 },
    { queue: 'order-a', priority: 0 },
    { queue: 'order-b', priority: 9 },
    { queue: 'order-a', priority: 5 },
    { queue: 'order-b', priority: 0 },
  ]
  for (const [n, job] of jobs.entries()) await enqueueOne(lane, { ...job, input: n })
  const options = { queues: ['order-a', 'order-b'], kinds: ['mail'] }
  const taken = await claimNext(lane, { ...options, limit: 5 })
  assert.deepEqual(
    taken.map((job) => Number(job.payload)),
    [2, 5, 0, 1, 4],
  )
  assert.deepEqual(
    (await claimNext(lane, { ...options, limit: 5 })).map((job) => Number(job.payload)),
    [3],
  )
})

test('only kinds the worker knows are claimed', async () => {
  await enqueueOne(lane, { queue: 'kinds', kind: 'known' })
  await enqueueOne(lane, { queue: 'kinds', kind: 'unknown' })
  const taken = await claimNext(lane, { queues: ['kinds'], kinds: ['known'], limit: 10 })
  assert.deepEqual(
    taken.map((job) => job.kind),
    ['known'],
  )
})

test('a delayed job is claimable when its time has come, and not before', async (t) => {
  const own = await freshDatabase(t)
  const ownLane = new Lane(own.pool)
  await own.clock.set('2030-01-01T00:00:00Z')
  await enqueueOne(ownLane, { delayMs: 60_000 })
  await own.clock.advance('59 s')
  assert.deepEqual(await claimNext(ownLane), [])
  await own.clock.advance('2 s')
  assert.equal((await claimNext(ownLane)).length, 1)
})

test('a job past its expiry is not claimed', async (t) => {
  const own = await freshDatabase(t)
  const ownLane = new Lane(own.pool)
  await own.clock.set('2030-01-01T00:00:00Z')
  await enqueueOne(ownLane, { expiresAt: new Date('2030-01-01T00:01:00Z') })
  await own.clock.advance('61 s')
  assert.deepEqual(await claimNext(ownLane), [])
})

test('a row that another session is claiming is skipped without waiting', async () => {
  await enqueueMany(lane, 2, { queue: 'double' })
  const first = await session(db)
  const options = { queues: ['double'], kinds: ['mail'] }
  await first.client.query('begin')
  const [a] = await claimNext(first.lane, options)
  const [b] = await claimNext(lane, options)
  assert.notEqual(a?.jobId, b?.jobId)
  assert.deepEqual(await claimNext(lane, options), [], 'the first session still holds its row')
  await first.client.query('rollback')
  const [again] = await claimNext(lane, options)
  assert.equal(again?.jobId, a?.jobId, 'a claim that rolled back took nothing')
  assert.equal(again?.generation, 1)
})

test('eight claimers over 2,000 rows: every row is claimed once', async () => {
  const ids = await enqueueMany(lane, 2_000, { queue: 'crowd' })
  const sessions = await Promise.all(Array.from({ length: 8 }, () => session(db)))
  const taken: ClaimedJob[] = []
  await Promise.all(
    sessions.map(async (own) => {
      const worker = newWorker()
      for (;;) {
        const jobs = await claimNext(own.lane, { queues: ['crowd'], kinds: ['mail'], limit: 25, worker })
        assert.ok(jobs.length <= 25)
        if (jobs.length === 0) return
        taken.push(...jobs)
        await completeAll(own.lane, worker, jobs)
      }
    }),
  )
  assert.deepEqual(
    taken.map((job) => Number(job.jobId)).sort((a, b) => a - b),
    ids.map(Number),
  )
  assert.ok(taken.every((job) => job.generation === 1))
})

test('a claim holds its jobs in the ledger', async () => {
  const ids = await enqueueMany(lane, 3, { queue: 'ledger' })
  const worker = newWorker()
  const claimId = newClaimId()
  const request = { claimId, worker, kinds: ['mail'], limit: 10, leaseMs: LEASE_MS }
  await claim(lane, request, new ScanCursors(['ledger']).next().walk)
  const { rows } = await db.pool.query('select worker_id, job_ids from leasehold.claim where id = $1', [claimId])
  assert.deepEqual(rows, [{ worker_id: worker.id, job_ids: ids }])
  const empty = newClaimId()
  await claim(lane, { ...request, claimId: empty }, new ScanCursors(['ledger']).next().walk)
  const none = await db.pool.query('select from leasehold.claim where id = $1', [empty])
  assert.equal(none.rowCount, 0, 'a claim that found nothing leaves nothing')
})

test('work committed late, behind the mark, is claimed at the next look from the beginning', async () => {
  let now = 0
  const cursors = new ScanCursors(['late'], () => now)
  const worker = newWorker()
  const take = async (limit: number) => {
    const asked = cursors.next(limit)
    const request = { claimId: newClaimId(), worker, kinds: ['mail'], limit, leaseMs: LEASE_MS }
    const jobs = await claim(lane, request, asked.walk)
    cursors.learn(asked, { jobs, limit, walkMs: 1 })
    return jobs.map((job) => Number(job.payload))
  }
  const late = await session(db)
  await late.client.query('begin')
  await enqueue(late.lane, [{ kind: 'mail', queue: 'late', input: -1 }])
  for (let n = 0; n < 30; n++) await enqueueOne(lane, { queue: 'late', input: n })

  assert.deepEqual(await take(5), [0, 1, 2, 3, 4])
  now += 100
  assert.deepEqual(await take(5), [5, 6, 7, 8, 9], 'from the mark')
  await late.client.query('commit')
  assert.deepEqual(await take(5), [10, 11, 12, 13, 14], 'the late row lies behind the mark')
  now += 151
  assert.deepEqual(await take(5), [-1, 15, 16, 17, 18], 'after 250 ms the look is from the beginning')
})

test('a queue named twice is claimed from once', async () => {
  const ids = await enqueueMany(lane, 2, { queue: 'twice' })
  const request = { claimId: newClaimId(), worker: newWorker(), kinds: ['mail'], limit: 10, leaseMs: LEASE_MS }
  await claim(lane, request, everyStart(['twice', 'twice']))
  const { rows } = await db.pool.query('select job_ids from leasehold.claim where id = $1', [request.claimId])
  assert.deepEqual(rows, [{ job_ids: ids }])
})

test('cursors keep microseconds in any date style and time zone of the session', async () => {
  await enqueueMany(lane, 3, { queue: 'style' })
  const { client, lane: own } = await session(db)
  await client.query("set datestyle = 'SQL, DMY'; set timezone = 'Asia/Kolkata'")
  const cursors = new ScanCursors(['style'], () => 0)
  for (let n = 0; n < 3; n++) {
    const asked = cursors.next()
    const request = { claimId: newClaimId(), worker: newWorker(), kinds: ['mail'], limit: 1, leaseMs: LEASE_MS }
    const jobs = await claim(own, request, asked.walk)
    assert.equal(jobs.length, 1, `claim ${n}, ${asked.fromStart ? 'from the beginning' : 'from the mark'}`)
    cursors.learn(asked, { jobs, limit: 1, walkMs: 0 })
  }
})

test('an invalid claim is refused before it is sent', async () => {
  const good = { claimId: newClaimId(), worker: newWorker(), kinds: ['mail'], limit: 1, leaseMs: LEASE_MS }
  const wrong = [
    { limit: 0 },
    { limit: 1.5 },
    { limit: 1_001 },
    { leaseMs: 0 },
    { leaseMs: Number.NaN },
    { leaseMs: Number.POSITIVE_INFINITY },
    { claimId: '1}' as ClaimId },
  ]
  for (const options of wrong) {
    await assert.rejects(claim(lane, { ...good, ...options }, everyStart(['mail'])), InvalidOptionError)
  }
})

test('a slice of a look takes the jobs due for a given span of time, of every priority', async (t) => {
  const own = await freshDatabase(t)
  await own.clock.set('2030-01-01T12:00:00Z')
  const slices = new Lane(own.pool)
  const dueAgo = { now: '12:00:00', seconds: '11:59:50', edge: '11:59:00', hours: '07:00:00' }
  const jobs = Object.entries(dueAgo).map(([input, time], index) => {
    return { kind: 'mail', input, priority: 9 - index, availableAt: new Date(`2030-01-01T${time}Z`) }
  })
  await enqueue(slices, jobs)
  const look = async (from: number, to: number) => {
    const request = { claimId: newClaimId(), worker: newWorker(), kinds: ['mail'], limit: 9, leaseMs: LEASE_MS }
    const found = await claim(slices, request, { queues: ['mail'], dueForMs: { from, to } })
    return found.map(({ payload }) => JSON.parse(payload))
  }
  assert.deepEqual(await look(0, 5_000), ['now'])
  assert.deepEqual(await look(20_000, 59_999), [])
  assert.deepEqual(await look(60_000, 61_000), ['edge'])
  assert.deepEqual(await look(5_000, 60_000), ['seconds'])
  assert.deepEqual(await look(60_000, 2 ** 41), ['hours'])
})

test('a claim takes no more than its share from one queue and priority', async () => {
  for (const queue of ['share-a', 'share-b']) await enqueueMany(lane, 5, { queue })
  await enqueueMany(lane, 5, { queue: 'share-a', priority: 9 })
  const request = { claimId: newClaimId(), worker: newWorker(), kinds: ['mail'], limit: 9, share: 2, leaseMs: LEASE_MS }
  const jobs = await claim(lane, request, { queues: ['share-a', 'share-b'] })
  assert.deepEqual(jobs.map(({ queue, priority }) => `${queue} ${priority}`).sort(), [
    'share-a 5',
    'share-a 5',
    'share-a 9',
    'share-a 9',
    'share-b 5',
    'share-b 5',
  ])
})
