// The calls of producers and operators. Scripts that drain, or claim and finish by hand, are in manual.test.ts.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { z } from 'zod'
import {
  handle,
  InvalidInputError,
  type JobId,
  JobNotFoundError,
  kind,
  SchemaError,
  TimedOutError,
  withTransaction,
} from '../../src/index.ts'
import { STATUSES } from '../../src/jobs/job.ts'
import { gate } from '../support/gate.ts'
import { jobRow } from '../support/queue.ts'
import { codeOf, collect, count, next, scene, untilStatus } from '../support/worker.ts'

const mail = kind<{ to: string }>('mail')
const NOBODY = '999999' as JobId

test('a job is created, found again by its key, or in conflict with another input', async (t) => {
  const { lh } = await scene(t)
  const first = await lh.enqueue(mail, { to: 'ada' }, { idempotencyKey: 'k' })
  assert.equal(first.outcome, 'created')
  const again = await lh.enqueue(mail, { to: 'ada' }, { idempotencyKey: 'k' })
  assert.deepEqual(again, { jobId: first.jobId, outcome: 'existing' })
  const other = await lh.enqueue(mail, { to: 'bob' }, { idempotencyKey: 'k', onConflict: 'return' })
  assert.deepEqual(other, { jobId: first.jobId, outcome: 'conflict' })
  assert.deepEqual((await lh.get(first.jobId))?.input, { to: 'ada' })
  assert.equal((await lh.list()).length, 1)
})

test('work enqueued in a transaction exists exactly when that transaction commits', async (t) => {
  const { lh, db } = await scene(t)
  const enqueued: JobId[] = []
  const rolledBack = withTransaction(db.pool, async (tx) => {
    enqueued.push((await lh.enqueue(mail, { to: 'ada' }, { tx })).jobId)
    await lh.enqueueMany(mail, [{ input: { to: 'bob' }, idempotencyKey: 'b' }], { tx })
    throw new Error('changed my mind')
  })
  await assert.rejects(rolledBack, /changed my mind/)
  assert.equal(await lh.get(enqueued[0]!), undefined)
  assert.deepEqual(await lh.list(), [])

  await withTransaction(db.pool, async (tx) => {
    enqueued.push((await lh.enqueue(mail, { to: 'ada' }, { tx })).jobId)
    assert.equal(await lh.get(enqueued[1]!), undefined, 'seen from outside before it was committed')
  })
  assert.equal((await lh.get(enqueued[1]!))?.status, 'pending')
})

test('many jobs are stored all or none, and returned in their order', async (t) => {
  const { lh, db } = await scene(t)
  const strict = kind('strict', { input: z.object({ n: z.number().max(500) }) })
  const jobs = Array.from({ length: 400 }, (_, n) => ({
    input: { n },
    ...(n % 3 === 0 && { idempotencyKey: `k${n}` }),
  }))
  const answers = await lh.enqueueMany(strict, jobs)
  const { rows } = await db.pool.query("select id::text, payload -> 'n' as n from leasehold.job order by n")
  assert.deepEqual(
    answers.map(({ jobId }) => jobId),
    rows.map(({ id }) => id),
  )
  const bad = [{ input: { n: 1 } }, { input: { n: 501 } }]
  await assert.rejects(lh.enqueueMany(strict, bad), InvalidInputError)
  assert.equal(
    await codeOf(() => lh.enqueueMany(strict, [{ input: { n: 1 } }, { input: { n: 2 }, priority: 10 }])),
    'INVALID_OPTION',
  )
  assert.equal(await count(db, 'from leasehold.job'), 400)
  assert.deepEqual(await lh.enqueueMany(strict, []), [])
})

test('get returns a job with the kind’s defaults and the call’s own options', async (t) => {
  const { lh } = await scene(t)
  const report = kind<number>('report', { queue: 'slow', priority: 7, maxAttempts: 2 })
  const plain = await lh.get((await lh.enqueue(report, 1)).jobId)
  assert.deepEqual(
    [plain!.queue, plain!.kind, plain!.priority, plain!.maxAttempts, plain!.attempts, plain!.generation, plain!.label],
    ['slow', 'report', 7, 2, 0, 0, 'ready'],
  )
  assert.deepEqual([plain!.metadata, plain!.partitionKey, plain!.result], [null, null, null])
  const options = { priority: 0, delay: '1h', partitionKey: 'p', metadata: { a: [1] } } as const
  const stored = await lh.get((await lh.enqueue(report, 2, options)).jobId)
  assert.deepEqual([stored!.priority, stored!.label, stored!.partitionKey], [0, 'scheduled', 'p'])
  assert.deepEqual(stored!.metadata, { a: [1] })
  assert.equal(stored!.availableAt.getTime() - stored!.enqueuedAt.getTime(), 3_600_000)
  // From code without a type checker: undefined options are not stored.
  const careless = { priority: undefined, delay: undefined, metadata: undefined } as object
  assert.equal((await lh.get((await lh.enqueue(report, 3, careless)).jobId))?.priority, 7)
})

test('list filters by status, kind and queue, and pages from newest to oldest', async (t) => {
  const { lh } = await scene(t)
  const other = kind<number>('other', { queue: 'shared', maxAttempts: 1 })
  const ids: Record<string, JobId> = {}
  const add = async (name: string) => {
    ids[name] = (await lh.enqueue(other, 1)).jobId
    return (await lh.claim(other))[0]!
  }
  await (await add('completed')).complete('done')
  await (await add('dead_letter')).fail(new Error('no'))
  await (await add('cancelled')).cancel()
  await add('processing')
  ids.pending = (await lh.enqueue(other, 1, { delay: '1h' })).jobId
  const mails = (await lh.enqueueMany(mail, [{ input: { to: 'a' } }, { input: { to: 'b' } }])).map(({ jobId }) => jobId)

  for (const status of STATUSES) {
    const found = await lh.list({ status, kind: other })
    assert.deepEqual(
      found.map(({ id, status }) => ({ id, status })),
      [{ id: ids[status], status }],
    )
  }
  const all = await lh.list()
  const inOrder = [...Object.values(ids), ...mails].sort((a, b) => Number(b) - Number(a))
  assert.deepEqual(
    all.map(({ id }) => id),
    inOrder,
  )
  assert.deepEqual(
    (await lh.list({ kind: 'mail' })).map(({ id }) => id),
    [...mails].reverse(),
  )
  assert.equal((await lh.list({ queue: 'shared' })).length, 5)
  const paged: JobId[] = []
  for (;;) {
    const page = await lh.list({ limit: 2, ...(paged.length > 0 && { before: paged.at(-1)! }) })
    if (page.length === 0) break
    paged.push(...page.map(({ id }) => id))
  }
  assert.deepEqual(paged, inOrder)
})

test('waitFor returns how a job ended: completed with its result, a dead letter with its reason, cancelled', async (t) => {
  const { lh, worker } = await scene(t)
  const sum = kind<number[]>('sum', { maxAttempts: 1 })
  const later = kind<null>('later')
  worker([
    handle(sum, ({ input }) => {
      if (input.length === 0) throw new TypeError('nothing to add')
      return { sum: input.reduce((a, b) => a + b) }
    }),
  ])
  const done = await lh.waitFor((await lh.enqueue(sum, [1, 2])).jobId)
  assert.deepEqual([done.status, done.result], ['completed', { sum: 3 }])
  const dead = await lh.waitFor((await lh.enqueue(sum, [])).jobId)
  assert.deepEqual([dead.status, dead.reason, dead.lastError?.name], ['dead_letter', 'attempts_exhausted', 'TypeError'])
  const { jobId } = await lh.enqueue(later, null)
  const waiting = lh.waitFor(jobId)
  assert.equal(await lh.cancel(jobId), 'cancelled')
  assert.equal((await waiting).status, 'cancelled')
})

test('waitFor ends by its timeout, by its signal, and when there is no such job', async (t) => {
  const { lh } = await scene(t)
  const { jobId } = await lh.enqueue(mail, { to: 'ada' })
  await assert.rejects(lh.waitFor(jobId, { timeout: '50ms' }), TimedOutError)
  await assert.rejects(lh.waitFor(NOBODY), JobNotFoundError)
  assert.equal(await codeOf(() => lh.waitFor('x; drop table' as JobId)), 'INVALID_OPTION')
  const abort = new AbortController()
  const waiting = lh.waitFor(jobId, { signal: abort.signal })
  abort.abort(new Error('enough'))
  await assert.rejects(waiting, /enough/)
})

test('cancel ends a pending job, asks a running one to stop, and returns not_found for the rest', async (t) => {
  const { lh, db, worker } = await scene(t)
  const { jobId } = await lh.enqueue(mail, { to: 'ada' }, { delay: '1h' })
  assert.equal(await lh.cancel(jobId), 'cancelled')
  assert.equal(await lh.cancel(jobId), 'not_found')
  assert.equal(await lh.cancel(NOBODY), 'not_found')
  const running = gate()
  const reasons: unknown[] = []
  const busy = worker([
    handle(mail, async ({ signal }) => {
      running.open()
      await new Promise((resolve) => signal.addEventListener('abort', resolve))
      reasons.push(signal.reason.code)
      signal.throwIfAborted()
    }),
  ])
  await next(busy, 'wakeup', ({ by }) => by === 'listen')
  const cancelled = next(busy, 'cancelled')
  const second = (await lh.enqueue(mail, { to: 'bob' })).jobId
  await running.opened
  assert.equal(await lh.cancel(second), 'requested')
  assert.equal((await cancelled).jobId, second)
  assert.deepEqual(reasons, ['CANCEL_REQUESTED'])
  assert.equal((await jobRow(db, second)).status, 'cancelled')
})

test('redrive revives dead letters by id, by list and by filter, with fresh attempts and the same generation', async (t) => {
  const { lh } = await scene(t)
  const frail = kind<number>('frail', { maxAttempts: 1 })
  const dead = (
    await lh.enqueueMany(
      frail,
      [0, 1, 2, 3, 4].map((input) => ({ input })),
    )
  ).map(({ jobId }) => jobId)
  for (const job of await lh.claim(frail, { limit: 5 })) await (job.input === 4 ? job.bury('no') : job.fail('no'))
  assert.deepEqual(await lh.redrive(dead[0]!), [dead[0]])
  assert.deepEqual(await lh.redrive(dead[0]!), [], 'it is no dead letter any more')
  assert.deepEqual(await lh.redrive([dead[1]!, NOBODY]), [dead[1]])
  assert.deepEqual(await lh.redrive([]), [])
  assert.deepEqual(await lh.redrive({ kind: frail, reason: 'attempts_exhausted', limit: 1 }), [dead[2]])
  assert.deepEqual(await lh.redrive({ kind: mail }), [])
  assert.deepEqual((await lh.redrive({ kind: frail })).sort(), [dead[3], dead[4]])
  const { status, attempts, generation } = (await lh.get(dead[0]!))!
  assert.deepEqual([status, attempts, generation], ['pending', 0, 1])
})

test('every call that takes options names the one that was misspelt', async (t) => {
  const { lh, worker } = await scene(t)
  const wrong = <T>(options: object) => options as T
  const { jobId } = await lh.enqueue(mail, { to: 'ada' })
  const [job] = await lh.claim(mail)
  const idle = worker([handle(mail, () => {})])
  const calls: [RegExp, () => unknown][] = [
    [
      /enqueue\.idempotencykey.*did you mean idempotencyKey\?/,
      () => lh.enqueue(mail, { to: 'a' }, wrong({ idempotencykey: 'k' })),
    ],
    [/enqueueMany\.txn.*did you mean tx\?/, () => lh.enqueueMany(mail, [], wrong({ txn: 1 }))],
    [
      /enqueueMany\[1\]\.delays.*did you mean delay\?/,
      () => lh.enqueueMany(mail, [{ input: { to: '' } }, wrong({ input: { to: '' }, delays: 1 })]),
    ],
    [/list\.stauts.*did you mean status\?/, () => lh.list(wrong({ stauts: 'pending' }))],
    [/waitFor\.timout.*did you mean timeout\?/, () => lh.waitFor(jobId, wrong({ timout: 1 }))],
    [/redrive\.reasons.*did you mean reason\?/, () => lh.redrive(wrong({ kind: mail, reasons: 1 }))],
    [
      /worker\.concurency.*did you mean concurrency\?/,
      () => lh.worker([handle(mail, () => {})], wrong({ concurency: 1 })),
    ],
    [/worker\.pol.*did you mean poll\?/, () => lh.drain([handle(mail, () => {})], wrong({ pol: 1 }))],
    [/worker\.leas.*did you mean lease\?/, () => lh.runOnce([handle(mail, () => {})], wrong({ leas: 1 }))],
    [/claim\.limits.*did you mean limit\?/, () => lh.claim(mail, wrong({ limits: 1 }))],
    [/complete\.xt.*known are tx/, () => job!.complete(1, wrong({ xt: 1 }))],
    [/stop\.grase.*did you mean grace\?/, () => idle.stop(wrong({ grase: 1 }))],
    [
      /handle\("mail"\)\.concurrancy.*did you mean concurrency\?/,
      () => handle(mail, () => {}, wrong({ concurrancy: 1 })),
    ],
    [/kind\("x"\)\.maxAttempt\b.*did you mean maxAttempts\?/, () => kind('x', wrong({ maxAttempt: 1 }))],
  ]
  for (const [message, call] of calls) {
    await assert.rejects(async () => call(), { code: 'INVALID_OPTION', message })
  }
  assert.equal((await lh.get(jobId))?.status, 'processing', 'something was done all the same')
})

test('keep: false leaves no trace of completed jobs, but keeps dead letters', async (t) => {
  const { lh, worker } = await scene(t)
  const fleeting = kind<boolean>('fleeting', { keep: false, maxAttempts: 1 })
  const busy = worker([
    handle(fleeting, ({ input }) => {
      if (!input) throw new Error('no')
    }),
  ])
  const [completed, dead] = [next(busy, 'completed'), next(busy, 'dead_letter')]
  const [good, bad] = await lh.enqueueMany(fleeting, [{ input: true }, { input: false }])
  await Promise.all([completed, dead])
  assert.equal(await lh.get(good!.jobId), undefined)
  assert.equal((await lh.get(bad!.jobId))?.status, 'dead_letter')
  const keyed = await lh.enqueue(fleeting, true, { idempotencyKey: 'k' })
  assert.equal((await lh.waitFor(keyed.jobId)).status, 'completed', 'its key is remembered, so it is')
})

test('a worker needs handlers, one for each kind, and a database that was migrated', async (t) => {
  const { lh, db, leasehold, log } = await scene(t)
  const handler = handle(mail, () => {})
  assert.throws(() => lh.worker([]), { code: 'INVALID_OPTION' })
  assert.throws(() => lh.worker([handler, handle(kind('mail'), () => {})]), /two of them handle "mail"/)
  const elsewhere = leasehold({ schema: 'elsewhere' })
  const refused = elsewhere.worker([handler], { signals: [] })
  const stopped = collect(refused, 'stopped')
  await assert.rejects(refused.run(), SchemaError)
  await assert.rejects(elsewhere.drain([handler]), SchemaError)
  assert.equal(stopped.length, 1)
  assert.deepEqual(log, [])
  await elsewhere.migrate()
  const { jobId } = await elsewhere.enqueue(mail, { to: 'ada' })
  assert.equal((await elsewhere.drain([handler])).completed, 1)
  assert.equal((await elsewhere.waitFor(jobId)).status, 'completed')
  assert.equal(await count(db, 'from leasehold.jobs'), 0)
  await untilStatus(db, (await lh.enqueue(mail, { to: 'b' })).jobId, 'pending')
})

test('a worker that is stopped before it runs ends at once, and claims nothing', async (t) => {
  const { lh, db } = await scene(t)
  const { jobId } = await lh.enqueue(mail, { to: 'ada' })
  const worker = lh.worker([handle(mail, () => {})], { signals: [] })
  await worker.stop()
  await worker.run()
  assert.equal((await jobRow(db, jobId)).status, 'pending')
})
