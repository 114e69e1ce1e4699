import assert from 'node:assert/strict'
import { test } from 'node:test'
import { InvalidOptionError, ValueNotStorableError } from '../../src/core/errors.ts'
import { Lane } from '../../src/db/lane.ts'
import { withTransaction } from '../../src/db/transaction.ts'
import { type Conflicting, type Enqueued, enqueue, type NewJob } from '../../src/jobs/enqueue.ts'
import { suiteDatabase, waitUntilBlocked } from '../support/database.ts'
import { claimNext, completeAll, enqueueMany, enqueueOne, jobRow, newWorker, session } from '../support/queue.ts'

const db = await suiteDatabase()
const lane = new Lane(db.pool)

async function countJobs(queue: string): Promise<number> {
  const { rows } = await db.pool.query('select count(*)::int as n from leasehold.jobs where queue = $1', [queue])
  return rows[0].n
}

test('a job is shown with every option it was given', async () => {
  const [answer] = await enqueue(lane, [
    {
      kind: 'resize',
      queue: 'images',
      input: { file: 'a.png', sizes: [1, 2] },
      priority: 2,
      availableAt: new Date('2030-01-01T00:00:00.123Z'),
      maxAttempts: 7,
      partitionKey: 'order:9182',
      idempotencyKey: 'resize-a',
      expiresAt: new Date('2031-01-01T00:00:00Z'),
      metadata: { traceparent: '00-abc' },
    },
  ])
  const row = await jobRow(db, answer!.jobId)
  assert.equal(answer?.outcome, 'created')
  assert.equal(row.status, 'pending')
  assert.equal(row.label, 'scheduled')
  assert.deepEqual(
    [row.queue, row.kind, row.priority, row.max_attempts, row.partition_key, row.partition_bucket],
    ['images', 'resize', 2, 7, 'order:9182', 43],
  )
  assert.deepEqual(row.payload, { file: 'a.png', sizes: [1, 2] })
  assert.deepEqual(row.metadata, { traceparent: '00-abc' })
  assert.deepEqual(row.available_at, new Date('2030-01-01T00:00:00.123Z'))
  assert.deepEqual(row.expires_at, new Date('2031-01-01T00:00:00Z'))
})

test('10,000 jobs in one call come back in the order given', async () => {
  const ids = await enqueueMany(lane, 10_000, { kind: 'bulk' })
  const { rows } = await db.pool.query(
    "select id, (payload ->> 'n')::int as n from leasehold.job where kind = 'bulk' order by id",
  )
  assert.deepEqual(
    rows.map((row) => [row.id, row.n]),
    ids.map((id, n) => [id, n]),
  )
  await assert.rejects(enqueueMany(lane, 10_001), InvalidOptionError)
})

test('work enqueued in a transaction exists exactly when that transaction commits', async () => {
  const refusal = new Error('changed my mind')
  await assert.rejects(
    withTransaction(db.pool, async (tx) => {
      await enqueueOne(lane.within(tx), { kind: 'undone', idempotencyKey: 'k' })
      throw refusal
    }),
    refusal,
  )
  assert.equal(await countJobs('undone'), 0)
  await withTransaction(db.pool, (tx) => enqueueOne(lane.within(tx), { kind: 'undone', idempotencyKey: 'k' }))
  assert.equal(await countJobs('undone'), 1)
})

// Both ways to enqueue, TypeScript and SQL, must return the same.
async function enqueueFromSql(job: NewJob): Promise<Enqueued | Conflicting> {
  const options = { idempotency_key: job.idempotencyKey, queue: job.queue, on_conflict: 'return' }
  const { rows } = await db.pool.query('select job_id, outcome from leasehold.enqueue($1, $2, $3)', [
    job.kind,
    JSON.stringify(job.input),
    JSON.stringify(options),
  ])
  return { jobId: rows[0].job_id, outcome: rows[0].outcome }
}
const enqueueFromCode = async (job: NewJob) => (await enqueue(lane, [job]))[0]!

for (const [door, call] of [
  ['enqueue()', enqueueFromCode],
  ['leasehold.enqueue()', enqueueFromSql],
] as const) {
  test(`${door}: the same key answers existing for the same input and conflict for another`, async () => {
    const job = { kind: 'receipt', queue: door, input: { a: 1, b: [true, null] }, idempotencyKey: 'receipt-9182-v1' }
    const first = await call(job)
    assert.equal(first.outcome, 'created')
    const sameInputOtherOrder = { ...job, input: { b: [true, null], a: 1 } }
    assert.deepEqual(await call(sameInputOtherOrder), { jobId: first.jobId, outcome: 'existing' })
    assert.deepEqual(await call({ ...job, input: { a: 2 } }), { jobId: first.jobId, outcome: 'conflict' })
    assert.deepEqual((await jobRow(db, first.jobId)).payload, { a: 1, b: [true, null] })
    assert.equal(await countJobs(door), 1)
    assert.equal((await call({ ...job, queue: `${door} other` })).outcome, 'created', 'keys are per queue')
  })

  test(`${door}: twenty sessions with one key leave one job and one id`, async () => {
    const job = { kind: 'race', queue: `race ${door}`, input: { n: 1 }, idempotencyKey: 'once' }
    const answers = await Promise.all(Array.from({ length: 20 }, () => call(job)))
    assert.equal(new Set(answers.map((answer) => answer.jobId)).size, 1)
    assert.equal(answers.filter((answer) => answer.outcome === 'created').length, 1)
    assert.equal(await countJobs(job.queue), 1)
  })
}

test('a key outlives its job', async () => {
  const job = { kind: 'again', input: 1, idempotencyKey: 'k' }
  const first = await enqueueFromCode(job)
  const worker = newWorker()
  await completeAll(lane, worker, await claimNext(lane, { queues: ['again'], worker }))
  assert.deepEqual(await enqueueFromCode(job), { jobId: first.jobId, outcome: 'existing' }, 'finished, still kept')
})

test('an enqueue with a key that another transaction is inserting waits for it and follows its end', async () => {
  const observer = await db.connect()
  for (const [end, expected] of [
    ['commit', 'existing'],
    ['rollback', 'created'],
  ] as const) {
    const first = await session(db)
    const second = await session(db)
    const job = { kind: 'wait', input: 1, idempotencyKey: end }
    await first.client.query('begin')
    const held = await enqueue(first.lane, [job])
    const waiting = enqueue(second.lane, [job])
    await waitUntilBlocked(observer, second.pid)
    await first.client.query(end)
    const [answer] = await waiting
    assert.equal(answer?.outcome, expected)
    assert.equal(answer?.jobId === held[0]?.jobId, end === 'commit')
  }
  assert.equal(await countJobs('wait'), 2)
})

test('a COMMIT whose reply was lost, sent again with the same key, leaves one job', async () => {
  // The server commits; the client does not learn it, because its session is cut before it reads the reply.
  const cut = await session(db)
  const job = { kind: 'lost-reply', input: { n: 1 }, idempotencyKey: 'charge-17' }
  await cut.client.query('begin')
  await enqueue(cut.lane, [job])
  const commit = cut.client.query('commit')
  const { stream } = (cut.client as unknown as { connection: { stream: { destroy(): void; pause(): void } } })
    .connection
  stream.pause()
  await backendIsIdleOrGone(cut.pid)
  stream.destroy()
  await assert.rejects(commit, 'the caller sees a failure')
  const [answer] = await enqueue(lane, [job])
  assert.equal(answer?.outcome, 'existing', 'it was in fact committed')
  assert.equal(await countJobs('lost-reply'), 1)
})

async function backendIsIdleOrGone(pid: number): Promise<void> {
  for (;;) {
    const { rows } = await db.pool.query('select state from pg_stat_activity where pid = $1', [pid])
    if (rows[0] === undefined || rows[0].state === 'idle') return
  }
}

test('duplicates inside one call resolve to the first', async () => {
  const answers = await enqueue(lane, [
    { kind: 'dup', input: 1, idempotencyKey: 'a' },
    { kind: 'dup', input: 1, idempotencyKey: 'b' },
    { kind: 'dup', input: 1, idempotencyKey: 'a' },
    { kind: 'dup', input: 2, idempotencyKey: 'a' },
    { kind: 'dup', input: 1 },
  ])
  assert.deepEqual(
    answers.map((answer) => answer.outcome),
    ['created', 'created', 'existing', 'conflict', 'created'],
  )
  assert.equal(answers[2]?.jobId, answers[0]?.jobId)
  assert.equal(answers[3]?.jobId, answers[0]?.jobId)
  const { rows } = await db.pool.query("select payload from leasehold.job where kind = 'dup' order by id")
  assert.deepEqual(
    rows.map((row) => row.payload),
    [1, 1, 1],
  )
})

test('two bulk calls with the same keys in opposite order do not deadlock', async () => {
  const jobs = Array.from({ length: 500 }, (_, n) => ({ kind: 'opposite', input: 1, idempotencyKey: `k${n}` }))
  for (let round = 0; round < 10; round++) {
    const sameKeys = jobs.map((job) => ({ ...job, queue: `opposite ${round}` }))
    await Promise.all([enqueue(lane, sameKeys), enqueue(lane, [...sameKeys].reverse())])
    assert.equal(await countJobs(`opposite ${round}`), 500)
  }
})

test('a value that cannot be stored is refused before anything is sent, with the whole call', async () => {
  await assert.rejects(
    enqueue(lane, [
      { kind: 'poison', input: 1 },
      { kind: 'poison', input: { list: ['ok', 'a\0b'] } },
    ]),
    (error: unknown) => error instanceof ValueNotStorableError && error.path === '$.list[1]',
  )
  const wrong: Partial<NewJob>[] = [
    { kind: '' },
    { kind: 'a\0b' },
    { kind: '\ud800' },
    { kind: 'x'.repeat(201) },
    { queue: '' },
    { priority: 10 },
    { priority: 1.5 },
    { maxAttempts: 0 },
    { maxAttempts: 40_000 },
    { delayMs: -1 },
    { delayMs: Number.NaN },
    { availableAt: new Date('nonsense') },
    { idempotencyKey: '' },
    { idempotencyKey: 'x'.repeat(1001) },
    { partitionKey: 'a\0' },
  ]
  for (const options of wrong) {
    await assert.rejects(
      enqueue(lane, [{ kind: 'poison', input: 1, ...options }]),
      InvalidOptionError,
      JSON.stringify(options),
    )
  }
  assert.equal(await countJobs('poison'), 0)
})

test('strings that only look dangerous are stored as they are', async () => {
  const hostile = `'; drop table leasehold.job; -- "{}\\" \u202e \u{1f4a9} NULL`
  const id = await enqueueOne(lane, {
    kind: hostile,
    queue: hostile,
    input: { [hostile]: hostile, __defineGetter__: 1, constructor: 'x' },
    idempotencyKey: hostile,
    partitionKey: hostile,
  })
  const row = await jobRow(db, id)
  assert.deepEqual([row.kind, row.queue, row.idempotency_key, row.partition_key], [hostile, hostile, hostile, hostile])
  assert.deepEqual(row.payload, { [hostile]: hostile, __defineGetter__: 1, constructor: 'x' })
})

test('leasehold.enqueue() refuses unknown options, nulls and oversized payloads', async () => {
  const call = (kind: string | null, payload: string | null, options: string) =>
    db.pool.query('select * from leasehold.enqueue($1, $2, $3)', [kind, payload, options])
  await assert.rejects(call('a', '{}', '{"priorty": 1}'), { code: '22023', message: /unknown option "priorty"/ })
  await assert.rejects(call(null, '{}', '{}'), { code: '22004' })
  await assert.rejects(call('a', null, '{}'), { code: '22004' })
  await assert.rejects(call('', '{}', '{}'), { code: '22023' })
  await assert.rejects(call('a', '{}', '{"priority": 11}'), { code: '22023', message: /priority is 0 to 9/ })
  await assert.rejects(call('a', '{}', '{"max_attempts": 0}'), { code: '22023', message: /max_attempts at least 1/ })
  await assert.rejects(call('a', JSON.stringify('x'.repeat(1_048_600)), '{}'), { code: '54000' })
  assert.equal(await countJobs('a'), 0)
})

test('leasehold.enqueue() takes every option', async () => {
  const { rows } = await db.pool.query('select * from leasehold.enqueue($1, $2, $3)', [
    'from-sql',
    '{"a": 1}',
    JSON.stringify({
      queue: 'sql',
      priority: 1,
      delay: '2 hours',
      max_attempts: 3,
      partition_key: 'user:42',
      expires_at: '2031-01-01T00:00:00Z',
      metadata: { m: 1 },
    }),
  ])
  const row = await jobRow(db, rows[0].job_id)
  assert.deepEqual(
    [row.kind, row.queue, row.priority, row.max_attempts, row.partition_bucket],
    ['from-sql', 'sql', 1, 3, 898],
  )
  assert.equal((row.available_at as Date).getTime() - (row.created_at as Date).getTime(), 7_200_000)
})
