import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Lane } from '../../src/db/lane.ts'
import { withTransaction } from '../../src/db/transaction.ts'
import { complete, completeWithin } from '../../src/jobs/completion.ts'
import { leaseOf } from '../../src/jobs/job.ts'
import { cancel } from '../../src/jobs/operator.ts'
import { progress, settle } from '../../src/jobs/outcome.ts'
import { countGenerations, suiteDatabase } from '../support/database.ts'
import { claimedBy, claimNext, enqueueMany, enqueueOne, jobRow, newWorker } from '../support/queue.ts'

const db = await suiteDatabase()
await countGenerations(db)
const lane = new Lane(db.pool)
const worker = newWorker('host:1')

const claimed = (queue: string, job = {}) => claimedBy(lane, worker, queue, job)

async function attemptsOf(jobId: string) {
  const { rows } = await db.pool.query(
    'select outcome, attempt, claim_id, worker_id, error from leasehold.job_attempt where job_id = $1 order by lease_generation',
    [jobId],
  )
  return rows
}

test('a completed job leaves the hot table and is the record of its attempt', async () => {
  const job = await claimed('complete', { partitionKey: 'k', metadata: { m: 1 } })
  assert.deepEqual(await complete(lane, worker, [{ ...job, result: { sent: true } }]), { refused: [], busy: [] })
  const row = await jobRow(db, job.jobId)
  assert.deepEqual(
    [row.status, row.result, row.attempts, row.claimed_by, row.partition_key, row.metadata, row.payload],
    ['completed', { sent: true }, 1, worker.id, 'k', { m: 1 }, { to: 'ada' }],
  )
  assert.ok(row.completed_at instanceof Date && row.claimed_at instanceof Date)
  const hot = await db.pool.query('select from leasehold.job where id = $1', [job.jobId])
  assert.equal(hot.rowCount, 0)
  assert.deepEqual(await attemptsOf(job.jobId), [], 'no extra write on the happy path')
  const day = await db.pool.query('select tableoid::regclass::text as t from leasehold.archive where id = $1', [
    job.jobId,
  ])
  assert.match(day.rows[0].t, /archive_\d{8}$/)
})

test('a completion in the caller’s transaction is done exactly when that transaction commits', async () => {
  const job = await claimed('within')
  await assert.rejects(
    withTransaction(db.pool, async (tx) => {
      await completeWithin(lane.within(tx), worker, job)
      throw new Error('roll back')
    }),
    /roll back/,
  )
  assert.equal((await jobRow(db, job.jobId)).status, 'processing')
  await withTransaction(db.pool, (tx) => completeWithin(lane.within(tx), worker, { ...job, result: 1 }))
  assert.equal((await jobRow(db, job.jobId)).status, 'completed')
})

test('a failed job is pending again after its delay, with the error on record', async (t) => {
  t.after(() => db.clock.reset())
  const job = await claimed('fail')
  const error = Object.assign(new TypeError('no route'), { code: 'EHOST' })
  const [answer] = await settle(lane, worker, [{ ...job, verb: 'fail', error, delayMs: 60_000 }])
  assert.equal(answer?.outcome, 'pending')
  const row = await jobRow(db, job.jobId)
  assert.deepEqual([row.status, row.label, row.attempts, row.claimed_by], ['pending', 'retrying', 1, null])
  const attempts = await attemptsOf(job.jobId)
  assert.equal(attempts.length, 1)
  assert.deepEqual([attempts[0].outcome, attempts[0].attempt, attempts[0].worker_id], ['failed', 1, worker.id])
  assert.deepEqual(
    [attempts[0].error.name, attempts[0].error.message, attempts[0].error.code],
    ['TypeError', 'no route', 'EHOST'],
  )
  assert.equal((row.last_error as { message: string }).message, 'no route')

  const options = { queues: ['fail'], kinds: ['mail'], worker }
  assert.deepEqual(await claimNext(lane, options), [])
  await db.clock.advance('61 s')
  const [again] = await claimNext(lane, options)
  assert.deepEqual([again?.jobId, again?.attempt, again?.generation], [job.jobId, 2, 2])
})

test('a job out of attempts is a dead letter with its last error', async () => {
  const first = await claimed('exhausted', { maxAttempts: 2 })
  const fail = { verb: 'fail', delayMs: 0 } as const
  assert.equal((await settle(lane, worker, [{ ...first, ...fail, error: 'one' }]))[0]?.outcome, 'pending')
  const [second] = await claimNext(lane, { queues: ['exhausted'], kinds: ['mail'], worker })
  assert.equal((await settle(lane, worker, [{ ...second!, ...fail, error: 'two' }]))[0]?.outcome, 'dead_letter')
  const row = await jobRow(db, first.jobId)
  assert.deepEqual(
    [row.status, row.reason, row.attempts, row.lease_generation, (row.last_error as { message: string }).message],
    ['dead_letter', 'attempts_exhausted', 2, '2', 'two'],
  )
  assert.deepEqual(
    (await attemptsOf(first.jobId)).map((attempt) => attempt.error.message),
    ['one', 'two'],
  )
})

test('a fatal error is a dead letter at once, for the reason given', async () => {
  for (const reason of ['fatal', 'invalid_input'] as const) {
    const job = await claimed('bury')
    await settle(lane, worker, [{ ...job, verb: 'bury', error: new Error('never'), reason }])
    const row = await jobRow(db, job.jobId)
    assert.deepEqual([row.status, row.reason, row.attempts], ['dead_letter', reason, 1])
  }
})

test('a snooze returns the attempt, keeps the generation and is on record', async () => {
  const job = await claimed('snooze')
  assert.equal((await settle(lane, worker, [{ ...job, verb: 'snooze', delayMs: 60_000 }]))[0]?.outcome, 'pending')
  const row = await jobRow(db, job.jobId)
  assert.deepEqual([row.attempts, row.lease_generation, row.label], [0, '1', 'scheduled'])
  const [attempt] = await attemptsOf(job.jobId)
  assert.deepEqual([attempt.outcome, attempt.claim_id, attempt.error], ['snoozed', job.claimId, null])
})

test('a snooze or a release does not hide the last error', async () => {
  const job = await claimed('last-error')
  await settle(lane, worker, [{ ...job, verb: 'fail', error: new Error('no route'), delayMs: 0 }])
  const [again] = await claimNext(lane, { queues: ['last-error'], kinds: ['mail'], worker })
  await settle(lane, worker, [{ ...again!, verb: 'snooze', delayMs: 0 }])
  assert.equal(((await jobRow(db, job.jobId)).last_error as { message: string }).message, 'no route')
})

test('a release returns the attempt and keeps the place in the line', async () => {
  const first = await claimed('release')
  const before = await db.pool.query('select available_at from leasehold.job where id = $1', [first.jobId])
  await enqueueOne(lane, { queue: 'release' })
  await settle(lane, worker, [{ ...first, verb: 'release' }])
  const after = await db.pool.query('select available_at from leasehold.job where id = $1', [first.jobId])
  assert.deepEqual(after.rows, before.rows)
  const [next] = await claimNext(lane, { queues: ['release'], kinds: ['mail'] })
  assert.deepEqual([next?.jobId, next?.attempt, next?.generation], [first.jobId, 1, 2])
  assert.deepEqual(
    (await attemptsOf(first.jobId)).map((attempt) => attempt.outcome),
    ['released'],
  )
})

test('a job with one attempt can be snoozed and released for ever', async () => {
  let job = await claimed('one-attempt', { maxAttempts: 1 })
  for (let round = 0; round < 3; round++) {
    await settle(lane, worker, [{ ...job, verb: round % 2 ? 'snooze' : 'release', delayMs: 0 }])
    ;[job] = (await claimNext(lane, { queues: ['one-attempt'], kinds: ['mail'], worker })) as [typeof job]
    assert.equal(job.attempt, 1)
  }
  assert.equal(job.generation, 4)
})

test('a requested cancel turns every requeue into an end', async () => {
  for (const verb of ['fail', 'snooze', 'release'] as const) {
    const job = await claimed('cancel-wins')
    await cancel(lane, [job.jobId])
    const [answer] = await settle(lane, worker, [{ ...job, verb, error: 'x', delayMs: 0 }])
    assert.equal(answer?.outcome, 'cancelled')
    assert.equal((await jobRow(db, job.jobId)).status, 'cancelled')
  }
  const finished = await claimed('cancel-wins')
  await cancel(lane, [finished.jobId])
  await complete(lane, worker, [finished])
  assert.equal((await jobRow(db, finished.jobId)).status, 'completed', 'what was done is done')
})

test('one batch may hold every verb', async () => {
  await enqueueMany(lane, 5, { queue: 'mixed' })
  const jobs = await claimNext(lane, { queues: ['mixed'], kinds: ['mail'], worker, limit: 5 })
  const [a, b, c, d, e] = jobs as [
    (typeof jobs)[0],
    (typeof jobs)[0],
    (typeof jobs)[0],
    (typeof jobs)[0],
    (typeof jobs)[0],
  ]
  const answers = await settle(lane, worker, [
    { ...a, verb: 'fail', error: 'x', delayMs: 1 },
    { ...b, verb: 'bury', error: 'x', reason: 'fatal' },
    { ...c, verb: 'snooze', delayMs: 1 },
    { ...d, verb: 'release' },
    { ...e, verb: 'cancel' },
  ])
  assert.deepEqual(
    answers.map((answer) => answer.outcome),
    ['pending', 'dead_letter', 'pending', 'pending', 'cancelled'],
  )
})

test('an invalid delay or reason does not lose the failure, nor the others of its batch', async () => {
  await enqueueMany(lane, 4, { queue: 'nonsense' })
  const jobs = await claimNext(lane, { queues: ['nonsense'], kinds: ['mail'], worker, limit: 4 })
  const delays = [Number.NaN, -5, Number.POSITIVE_INFINITY]
  const answers = await settle(lane, worker, [
    ...delays.map((delayMs, n) => ({ ...jobs[n]!, verb: 'fail' as const, error: 'x', delayMs })),
    { ...jobs[3]!, verb: 'bury', error: 'x', reason: 'whatever' as 'fatal' },
  ])
  assert.deepEqual(
    answers.map((answer) => answer.outcome),
    ['pending', 'pending', 'pending', 'dead_letter'],
  )
})

test('a requeued job keeps columns that newer code has stored', async () => {
  await db.pool.query('alter table leasehold.job add column from_the_future int')
  const job = await claimed('future')
  await db.pool.query('update leasehold.job set from_the_future = 42 where id = $1', [job.jobId])
  await settle(lane, worker, [{ ...job, verb: 'release' }])
  const { rows } = await db.pool.query('select from_the_future from leasehold.job where id = $1', [job.jobId])
  assert.deepEqual(rows, [{ from_the_future: 42 }])
  await db.pool.query('alter table leasehold.job drop column from_the_future')
})

test('of two outcomes of one claim in a batch the first counts and the second is refused', async () => {
  const done = await claimed('twice')
  const answer = await complete(lane, worker, [
    { ...done, result: 1 },
    { ...done, result: 2 },
  ])
  assert.deepEqual(answer, { refused: [leaseOf(done)], busy: [] })
  assert.equal((await jobRow(db, done.jobId)).result, 1)
  const failed = await claimed('twice')
  const settled = await settle(lane, worker, [
    { ...failed, verb: 'snooze', delayMs: 0 },
    { ...failed, verb: 'cancel' },
  ])
  assert.deepEqual(
    settled.map((item) => item.outcome),
    ['pending', 'refused'],
  )
})

test('recording a failure never fails, for any thrown value', async () => {
  const cyclic: { self?: unknown } = {}
  cyclic.self = cyclic
  const hostile = new Proxy(
    {},
    {
      get() {
        throw new Error('trap')
      },
    },
  )
  const thrown: unknown[] = [
    new Error('nul \0 and half a pair \ud800'),
    'text \0',
    null,
    undefined,
    Symbol('s'),
    10n,
    Number.NaN,
    cyclic,
    hostile,
    () => {},
    new Error('x'.repeat(10_000_000)),
    new AggregateError([new Error('\0'), 1n], '\udfff'),
    Object.assign(new Error('m'), { cause: cyclic, code: '\0' }),
    JSON.parse('{"__proto__": {"polluted": true}}'),
  ]
  for (const error of thrown) {
    const job = await claimed('thrown')
    const [answer] = await settle(lane, worker, [{ ...job, verb: 'bury', error, reason: 'fatal' }])
    assert.equal(answer?.outcome, 'dead_letter')
    const { last_error: stored } = await jobRow(db, job.jobId)
    assert.equal(typeof (stored as { message: string }).message, 'string')
  }
})

test('a result or a note that JSON cannot hold is made safe and stored', async () => {
  const values: unknown[] = [
    '\0',
    '\ud800',
    1n,
    Number.NaN,
    () => {},
    new Map([[1, 2]]),
    { a: undefined, b: [undefined] },
  ]
  for (const value of values) {
    const job = await claimed('results')
    assert.equal(await progress(lane, job, value), 'noted')
    assert.notEqual((await jobRow(db, job.jobId)).progress, undefined)
    assert.deepEqual(await complete(lane, worker, [{ ...job, result: value }]), { refused: [], busy: [] })
    assert.equal((await jobRow(db, job.jobId)).status, 'completed')
  }
})
