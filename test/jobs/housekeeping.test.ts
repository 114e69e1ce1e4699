import assert from 'node:assert/strict'
import { test } from 'node:test'
import { InvalidOptionError } from '../../src/core/errors.ts'
import { Lane } from '../../src/db/lane.ts'
import { releaseClaim } from '../../src/jobs/claim.ts'
import { complete } from '../../src/jobs/completion.ts'
import { expire, makePartitions, pruneDeadLetters, pruneKeys, sweep } from '../../src/jobs/housekeeping.ts'
import { redrive } from '../../src/jobs/operator.ts'
import { settle } from '../../src/jobs/outcome.ts'
import { freshDatabase, type TestDatabase } from '../support/database.ts'
import { claimNext, countByStatus, enqueueOne, jobRow, newWorker, pruneHistory, session } from '../support/queue.ts'

const DAY_MS = 86_400_000
const worker = newWorker()

async function setUp(t: Parameters<typeof freshDatabase>[0]) {
  const db = await freshDatabase(t)
  return { db, lane: new Lane(db.pool) }
}

async function finishOne(lane: Lane, keepDays = 7) {
  const id = await enqueueOne(lane)
  const [taken] = await claimNext(lane, { worker })
  await complete(lane, worker, [{ ...taken!, keepMs: keepDays * DAY_MS }])
  return id
}

async function partitions(db: TestDatabase, parent: string): Promise<string[]> {
  const { rows } = await db.pool.query(
    'select inhrelid::regclass::text as name from pg_inherits where inhparent = $1::regclass order by 1',
    [`leasehold.${parent}`],
  )
  return rows.map((row) => row.name.replace('leasehold.', ''))
}

test('a pending job past its expiry becomes a dead letter; a running one does not', async (t) => {
  const { db, lane } = await setUp(t)
  await db.clock.set('2030-01-01T00:00:00Z')
  const expiresAt = new Date('2030-01-01T00:01:00Z')
  const running = await enqueueOne(lane, { expiresAt })
  await claimNext(lane)
  const waiting = await enqueueOne(lane, { expiresAt })
  assert.deepEqual(await expire(lane), [])
  await db.clock.advance('61 s')
  assert.deepEqual(await expire(lane), [waiting])
  assert.deepEqual([(await jobRow(db, waiting)).status, (await jobRow(db, waiting)).reason], ['dead_letter', 'expired'])
  assert.equal((await jobRow(db, running)).status, 'processing')
  assert.deepEqual(await redrive(lane, [waiting]), [waiting])
  assert.equal((await claimNext(lane)).length, 1, 'an operator’s redrive overrides the expiry')
})

test('a job that has started does not expire, and one that was only released does', async (t) => {
  const { db, lane } = await setUp(t)
  await db.clock.set('2030-01-01T00:00:00Z')
  const expiresAt = new Date('2030-01-01T00:10:00Z')
  const ids = (jobs: readonly { readonly jobId: string }[]) => jobs.map(({ jobId }) => jobId).sort()
  const claimed = async (by = worker) => {
    await enqueueOne(lane, { expiresAt })
    return (await claimNext(lane, { worker: by }))[0]!
  }
  // The last is alone with its worker, and is blamed.
  const [failed, snoozed, ...swept] = [await claimed(), await claimed(), await claimed(), await claimed(newWorker())]
  await settle(lane, worker, [
    { ...failed, verb: 'fail', error: 'x', delayMs: 3_600_000 },
    { ...snoozed, verb: 'snooze', delayMs: 3_600_000 },
  ])
  await db.clock.advance('31 s')
  assert.deepEqual(ids((await sweep(lane)).jobs), ids(swept))
  const released = await claimed()
  const withItsClaim = await claimed()
  await settle(lane, worker, [{ ...released, verb: 'release' }])
  await releaseClaim(lane, worker, withItsClaim.claimId)
  await db.clock.advance('10 min')
  assert.deepEqual((await expire(lane)).sort(), ids([released, withItsClaim]))
  assert.equal((await jobRow(db, released.jobId)).reason, 'expired')
  await db.clock.advance('1 h')
  assert.deepEqual(ids(await claimNext(lane, { worker, limit: 5 })), ids([failed, snoozed]))
  const left = await Promise.all(swept.map(({ jobId }) => jobRow(db, jobId)))
  assert.deepEqual(
    left.map(({ status, attempts }) => [status, attempts]),
    [
      ['pending', 0],
      ['pending', 1],
    ],
  )
  assert.deepEqual(await expire(lane), [])
})

test('a key kept for over a century, an invalid age and an invalid limit are refused', async (t) => {
  const { db, lane } = await setUp(t)
  await assert.rejects(
    db.pool.query(
      'select leasehold.enqueue(\'k\', \'1\', \'{"idempotency_key": "a", "keep_key_for": "290000 years"}\')',
    ),
    { code: '23514' },
  )
  for (const bad of [-1, Number.NaN]) {
    await assert.rejects(pruneHistory(lane, bad), InvalidOptionError)
    await assert.rejects(pruneDeadLetters(lane, bad), InvalidOptionError)
    await assert.rejects(expire(lane, bad), InvalidOptionError)
    await assert.rejects(pruneKeys(lane, bad), InvalidOptionError)
    await assert.rejects(makePartitions(lane, bad), InvalidOptionError)
  }
})

test('dead letters are pruned by age, oldest first', async (t) => {
  const { db, lane } = await setUp(t)
  for (const wait of ['10 days', '10 days', '1 day']) {
    await enqueueOne(lane)
    const [taken] = await claimNext(lane, { worker })
    await settle(lane, worker, [{ ...taken!, verb: 'bury', error: 'x', reason: 'fatal' }])
    await db.clock.advance(wait)
  }
  assert.equal(await pruneDeadLetters(lane, 5 * DAY_MS, 1), 1)
  assert.equal(await pruneDeadLetters(lane, 5 * DAY_MS), 1)
  assert.equal(await pruneDeadLetters(lane, 5 * DAY_MS), 0)
  assert.deepEqual(await countByStatus(db), { dead_letter: 1 })
})

test('partitions are made ahead once, by the first caller', async (t) => {
  const { db, lane } = await setUp(t)
  assert.equal((await partitions(db, 'archive')).length, 16, 'migrated: one day, fourteen ahead, and the default')
  await db.clock.set('2040-02-27T23:59:00Z')
  assert.equal(await makePartitions(lane, 3), 12, 'four days of three tables')
  assert.equal(await makePartitions(lane, 3), 0)
  const made = await Promise.all(Array.from({ length: 8 }, () => makePartitions(lane, 5)))
  assert.equal(
    made.reduce((a, b) => a! + b!),
    6,
    'two more days of three tables',
  )
  assert.deepEqual((await partitions(db, 'archive')).slice(15, 21), [
    'archive_20400227',
    'archive_20400228',
    'archive_20400229',
    'archive_20400301',
    'archive_20400302',
    'archive_20400303',
  ])
  assert.deepEqual((await partitions(db, 'job_attempt')).length, 15)
})

test('each finished job is kept as long as it asked to be, and forgotten with its day', async (t) => {
  const { db, lane } = await setUp(t)
  const shown = async () => (await db.pool.query('select id from leasehold.jobs order by id')).rows.map(({ id }) => id)
  const long = await finishOne(lane, 9)
  const short = await finishOne(lane, 2)
  const forget = async () => {
    for (let call = 0; call < 12; call++) await pruneHistory(lane, 100 * DAY_MS)
    return shown()
  }
  assert.deepEqual(await forget(), [long, short])
  await db.clock.advance('1 day')
  assert.deepEqual(await forget(), [long, short], 'kept for two days, and the day must be over')
  await db.clock.advance('2 days')
  assert.deepEqual(await forget(), [long])
  await db.clock.advance('5 days')
  assert.deepEqual(await forget(), [long])
  await db.clock.advance('2 days')
  assert.deepEqual(await forget(), [])
})

test('history is dropped a day at a time, attempts past the age given', async (t) => {
  const { db, lane } = await setUp(t)
  const count = async () => [(await partitions(db, 'archive')).length, (await partitions(db, 'job_attempt')).length]
  const [archives, attempts] = await count()
  assert.equal(await pruneHistory(lane, 3 * DAY_MS), 0)
  await db.clock.advance('1 day')
  assert.equal(await pruneHistory(lane, 3 * DAY_MS), 1, 'what was to be forgotten yesterday')
  await db.clock.advance('3 days')
  assert.equal(await pruneHistory(lane, 3 * DAY_MS), 2, 'one day of each table')
  assert.deepEqual(await count(), [archives! - 2, attempts! - 1])
})

test('a clock that jumped beyond the partitions loses nothing', async (t) => {
  const { db, lane } = await setUp(t)
  await db.clock.advance('100 days')
  await finishOne(lane, 0)
  const stray = await db.pool.query('select from leasehold.archive_default')
  assert.equal(stray.rowCount, 1)
  assert.ok((await makePartitions(lane, 2))! > 0, 'the days after it get partitions; its own stays in the default')
  await finishOne(lane, 0)
  await db.clock.advance('1 day')
  await finishOne(lane, 0)
  assert.equal((await db.pool.query('select from leasehold.archive_default')).rowCount, 2)
  assert.deepEqual(await countByStatus(db), { completed: 3 })
  await db.clock.advance('10 days')
  assert.ok((await pruneHistory(lane, 5 * DAY_MS)) >= 2)
  assert.equal((await db.pool.query('select from leasehold.archive_default')).rowCount, 0, 'pruned row by row')
})

test('a reader in the way of a partition to be dropped delays neither inserts nor the housekeeper', async (t) => {
  const { db, lane } = await setUp(t)
  await finishOne(lane, 0)
  await db.clock.advance('5 days')
  const reader = await session(db)
  await reader.client.query('begin')
  await reader.client.query('select count(*) from leasehold.archive')
  assert.equal(await pruneHistory(lane, DAY_MS), 1, 'the archive is being read, so only the attempts of that day go')
  await finishOne(lane)
  await reader.client.query('commit')
  assert.ok((await pruneHistory(lane, DAY_MS)) >= 1)
})
