// Values that a claim returns besides the job: its generation, its bucket, its times.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Lane } from '../../src/db/lane.ts'
import { effectKey } from '../../src/effects/key.ts'
import { Effects } from '../../src/effects/once.ts'
import { settle } from '../../src/jobs/outcome.ts'
import { dateOf, isEarlier, type StoredTime, textBefore, timeText } from '../../src/jobs/stored-time.ts'
import { freshDatabase, suiteDatabase } from '../support/database.ts'
import { claimNext, enqueueOne, jobRow, newWorker, session } from '../support/queue.ts'

const db = await suiteDatabase()
const lane = new Lane(db.pool)

test('a generation is at least the time in milliseconds, and higher than the one before, also after a clock jump', async (t) => {
  const own = await freshDatabase(t)
  const ownLane = new Lane(own.pool)
  const id = await enqueueOne(ownLane, { availableAt: new Date('2020-01-01') })
  assert.equal((await jobRow(own, id)).lease_generation, '0', 'never claimed')
  const next = async () => {
    const worker = newWorker()
    const [job] = await claimNext(ownLane, { worker })
    await settle(ownLane, worker, [{ ...job!, verb: 'release' }])
    return job!.generation
  }
  const before = Date.now()
  const first = await next()
  assert.ok(first >= before - 1 && first <= Date.now() + 1 && Number.isSafeInteger(first))
  await own.clock.advance('-1 hour')
  assert.equal(await next(), first + 1, 'a clock that is set back')
  await own.clock.advance('2 hours')
  assert.ok((await next()) > first + 3_500_000)
})

test('stored times keep their microseconds, their order and their sign', async () => {
  const texts = [
    '-infinity',
    '1970-01-01 00:00:00.000001+00',
    '1999-12-31 23:59:59.999999+00',
    '2000-01-01 00:00:00+00',
  ]
  texts.push('2026-11-17 05:18:50.123456+00', '9998-12-31 12:00:00+00')
  const { rows } = await db.pool.query<{ stored: StoredTime }>(
    `select encode(timestamptz_send(t), 'hex') as stored from unnest($1::timestamptz[]) with ordinality as i (t, n) order by n`,
    [texts],
  )
  const stored = rows.map((row) => row.stored)
  const { rows: back } = await db.pool.query('select $1::timestamptz[] = $2::timestamptz[] as same', [
    texts,
    stored.map(timeText),
  ])
  assert.deepEqual(back, [{ same: true }])
  for (const ms of [1, 1_999, 86_400_000]) {
    const { rows: earlier } = await db.pool.query(
      "select t - $2 * interval '1 ms' = b as same from unnest($1::timestamptz[], $3::timestamptz[]) as i (t, b)",
      [texts, ms, stored.map((time) => textBefore(time, ms))],
    )
    assert.deepEqual(
      earlier.map(({ same }) => same),
      texts.map(() => true),
    )
  }
  for (let i = 1; i < stored.length; i++) {
    assert.deepEqual([isEarlier(stored[i - 1]!, stored[i]!), isEarlier(stored[i]!, stored[i - 1]!)], [true, false])
  }
  assert.equal(dateOf(stored[4]!).toISOString(), '2026-11-17T05:18:50.123Z')
})

test('no setting of a session changes what a claim returns', async () => {
  const { client, lane: own } = await session(db)
  await client.query("set bytea_output = 'escape'; set datestyle = 'SQL, DMY'; set timezone = 'Asia/Kolkata'")
  await enqueueOne(lane, { queue: 'settings' })
  const options = { queues: ['settings'], kinds: ['mail'] }
  const worker = newWorker()
  const [first] = await claimNext(own, { ...options, worker })
  await settle(own, worker, [{ ...first!, verb: 'release' }])
  const [second] = await claimNext(lane, options)
  assert.deepEqual([first!.createdAt, first!.availableAt], [second!.createdAt, second!.availableAt])
  assert.equal(effectKey(first!, 'charge'), effectKey(second!, 'charge'))
})

// The claim returns null for what is the same for most jobs, and the worker fills it in.
test('a claim returns what is stored, whether it is as with most jobs or not', async () => {
  const kinds = ['usual', 'other']
  const queues = [...kinds, 'apart']
  await enqueueOne(lane, { kind: 'usual' })
  await enqueueOne(lane, { kind: 'other', priority: 3, maxAttempts: 7, availableAt: new Date('2020-01-01') })
  await enqueueOne(lane, { kind: 'usual', queue: 'apart', priority: 9, partitionKey: 'k', metadata: { m: 1 } })
  await enqueueOne(lane, { kind: 'other', queue: 'usual', maxAttempts: 1 })
  const worker = newWorker()
  const storedFor = async (ids: readonly string[]) => {
    const { rows } = await db.pool.query(
      `select id, queue, kind, lease_generation::float8 as generation, attempts, max_attempts, priority, line, partition_bucket,
         encode(timestamptz_send(available_at), 'hex') as available_at, encode(timestamptz_send(created_at), 'hex') as created_at
       from leasehold.job where id = any ($1) order by priority, available_at, id`,
      [ids],
    )
    return rows.map((row) => Object.values(row))
  }
  for (let attempt = 1; attempt <= 2; attempt++) {
    const jobs = await claimNext(lane, { queues, kinds, limit: 10, worker })
    assert.equal(jobs.length, 4)
    assert.deepEqual(
      jobs.map((job) => [
        ...[
          job.jobId,
          job.queue,
          job.kind,
          job.generation,
          job.attempt,
          job.maxAttempts,
          job.priority,
          job.line,
          job.bucket,
        ],
        ...[job.availableAt, job.createdAt],
      ]),
      await storedFor(jobs.map(({ jobId }) => jobId)),
    )
    // The last but one is claimed again with a generation that is higher than the clock's.
    await db.pool.query("update leasehold.job set lease_generation = lease_generation + 60000 where kind = 'usual'")
    await settle(
      lane,
      worker,
      jobs.map((job) => ({ ...job, verb: 'snooze', delayMs: 0 })),
    )
    await db.pool.query('update leasehold.job set attempts = 1 where id = $1', [jobs[0]!.jobId])
  }
})

test('a job that got the id of another does not find its effects', async () => {
  const queue = 'reused id'
  const jobId = await enqueueOne(lane, { queue })
  const [old] = await claimNext(lane, { queues: [queue], kinds: ['mail'] })
  await new Effects(lane, old!).once('charge', () => 'receipt of the old job')
  await db.pool.query('delete from leasehold.job where id = $1', [jobId])
  await db.pool.query("select setval('leasehold.job_id', $1::bigint, false)", [jobId])
  assert.equal(await enqueueOne(lane, { queue }), jobId)
  const [job] = await claimNext(lane, { queues: [queue], kinds: ['mail'] })
  assert.equal(await new Effects(lane, job!).once('charge', () => 'receipt of the new job'), 'receipt of the new job')
})
