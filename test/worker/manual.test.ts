// For scripts, serverless functions and custom loops: drain, runOnce, and jobs claimed and finished by hand.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { z } from 'zod'
import { handle, kind, LeaseLostError, type ManualJob, withTransaction } from '../../src/index.ts'
import { jobRow } from '../support/queue.ts'
import { codeOf, count, next, nothingHeld, type Scene, scene } from '../support/worker.ts'

const mail = kind<{ to: string }>('mail', { backoff: { first: '10m' }, maxAttempts: 3 })

/** A scene with one job, claimed by hand. */
async function claimed(t: TestContext): Promise<Scene & { job: ManualJob<{ to: string }> }> {
  const setting = await scene(t)
  await setting.lh.enqueue(mail, { to: 'ada' })
  const [job] = await setting.lh.claim(mail)
  return { ...setting, job: job! }
}

test('drain works until nothing is left, retries included, and returns the outcomes', async (t) => {
  const { lh, db } = await scene(t)
  const flaky = kind<number>('flaky', { backoff: { first: 0 }, maxAttempts: 3 })
  await lh.enqueueMany(
    flaky,
    [0, 1, 2, 3].map((input) => ({ input })),
  )
  const handler = handle(flaky, ({ input, attempt }) => {
    if (input === 3 || attempt <= input) throw new Error('not yet')
  })
  const tally = await lh.drain([handler], { poll: 10 })
  assert.deepEqual(tally, {
    completed: 3,
    retrying: 5,
    deadLetters: 1,
    snoozed: 0,
    cancelled: 0,
    released: 0,
    refused: 0,
    concurrentModifications: 0,
  })
  await nothingHeld(db)
})

test('runOnce claims one batch, and suspects when there is nothing else', async (t) => {
  const { lh, db } = await scene(t)
  const ran: number[] = []
  const numbered = kind<number>('numbered')
  const handlers = [handle(numbered, ({ input }) => void ran.push(input))]
  await lh.enqueueMany(
    numbered,
    [0, 1, 2, 3, 4].map((input) => ({ input })),
  )
  assert.equal((await lh.runOnce(handlers, { concurrency: 2 })).completed, 2)
  assert.deepEqual(ran, [0, 1])
  // The other three are claimed by a worker that dies.
  assert.equal((await lh.claim(numbered, { limit: 3 })).length, 3)
  await db.clock.advance('1 hour')
  assert.equal((await lh.runOnce(handlers)).completed, 3)
  assert.deepEqual(ran.slice(2).sort(), [2, 3, 4])
  assert.equal((await lh.runOnce(handlers)).completed, 0)
  await nothingHeld(db)
})

test('a job claimed by hand shows its claim, and is the only one', async (t) => {
  const { lh, job } = await claimed(t)
  assert.deepEqual(
    [job.kind, job.generation, job.attempt, job.maxAttempts, job.input],
    ['mail', 1, 1, 3, { to: 'ada' }],
  )
  const { status, claimedBy, leaseExpiresAt } = (await lh.get(job.id))!
  assert.equal(status, 'processing')
  assert.match(claimedBy!, new RegExp(`:${process.pid}$`))
  assert.ok(leaseExpiresAt!.getTime() > Date.now())
  assert.deepEqual(await lh.claim(mail), [])
  assert.deepEqual(await lh.claim([mail, kind('other')], { limit: 10, lease: '1m' }), [])
})

test('completed by hand it is done, with its result', async (t) => {
  const { lh, job } = await claimed(t)
  await job.complete({ sent: true })
  const { status, result } = await lh.waitFor(job.id)
  assert.deepEqual([status, result], ['completed', { sent: true }])
})

test('completed by hand in a transaction it is done exactly when that commits', async (t) => {
  const { lh, db, job } = await claimed(t)
  const rolledBack = withTransaction(db.pool, async (tx) => {
    await job.complete(1, { tx })
    throw new Error('changed my mind')
  })
  await assert.rejects(rolledBack, /changed my mind/)
  assert.equal((await lh.get(job.id))?.status, 'processing')
  const outside = await db.connect()
  assert.equal(await codeOf(() => job.complete(1, { tx: outside })), 'INVALID_OPTION')
  assert.equal(await codeOf(() => job.complete(1, { tx: db.pool })), 'INVALID_OPTION')
  assert.equal((await lh.get(job.id))?.status, 'processing')
  await withTransaction(db.pool, (tx) => job.complete(2, { tx }))
  assert.equal((await lh.waitFor(job.id)).result, 2)
})

test('failed by hand it waits for its backoff, and is a dead letter when no attempt is left', async (t) => {
  const { lh, db, job } = await claimed(t)
  const before = await db.pool.query('select leasehold.clock() as at')
  assert.equal(await job.fail(new RangeError('too far')), 'pending')
  const failed = (await lh.get(job.id))!
  assert.deepEqual([failed.label, failed.attempts, failed.lastError?.name], ['retrying', 1, 'RangeError'])
  // Ten minutes, of which a quarter is random; a second for the statement itself.
  const delayMs = failed.availableAt.getTime() - before.rows[0].at.getTime()
  assert.ok(delayMs >= 450_000 && delayMs <= 601_000, String(delayMs))
  const outcomes: string[] = []
  for (let attempt = 2; attempt <= 3; attempt++) {
    await db.clock.advance('1 hour')
    outcomes.push(await (await lh.claim(mail))[0]!.fail('again'))
  }
  assert.deepEqual(outcomes, ['pending', 'dead_letter'])
  assert.equal((await lh.get(job.id))?.reason, 'attempts_exhausted')
})

test('buried by hand it is a dead letter at once', async (t) => {
  const { lh, job } = await claimed(t)
  await job.bury({ odd: 1n })
  const { status, reason, attempts, lastError } = (await lh.get(job.id))!
  assert.deepEqual([status, reason, attempts, lastError?.name], ['dead_letter', 'fatal', 1, 'NonError'])
})

test('snoozed or released by hand it keeps its attempt', async (t) => {
  const { lh, job } = await claimed(t)
  await job.release()
  const released = (await lh.get(job.id))!
  assert.deepEqual([released.label, released.attempts, released.generation], ['ready', 0, 1])
  const [again] = await lh.claim(mail)
  assert.deepEqual([again!.attempt, again!.generation], [1, 2])
  assert.equal(await codeOf(() => again!.snooze('soon' as '1s')), 'INVALID_OPTION')
  await again!.snooze('1h')
  const snoozed = (await lh.get(job.id))!
  assert.deepEqual([snoozed.label, snoozed.attempts, snoozed.generation], ['scheduled', 0, 2])
})

test('cancelled by hand it is cancelled; if a cancel was requested, a failure cancels it, too', async (t) => {
  const { lh, job } = await claimed(t)
  await job.cancel()
  assert.equal((await lh.get(job.id))?.status, 'cancelled')
  const { jobId } = await lh.enqueue(mail, { to: 'bob' })
  const [other] = await lh.claim(mail)
  assert.equal(await lh.cancel(jobId), 'requested')
  assert.equal((await lh.get(jobId))?.cancelRequested, true)
  assert.equal(await other!.fail('no'), 'cancelled')
})

test('renewed by hand the lease goes on; not renewed, another worker claims the job and every write is refused', async (t) => {
  const { lh, db, job } = await claimed(t)
  await db.clock.advance('20s')
  await job.renew()
  await job.progress({ percent: 50 })
  assert.deepEqual((await lh.get(job.id))?.progress, { percent: 50 })
  await db.clock.advance('20s')
  await lh.drain([handle(kind('nothing'), () => {})]) // Housekeeping: sweeps expired leases.
  assert.equal((await lh.get(job.id))?.status, 'processing', 'the renewal did not count')
  await db.clock.advance('11s')
  await lh.drain([handle(kind('nothing'), () => {})])
  assert.equal((await lh.get(job.id))?.status, 'pending')
  const [heir] = await lh.claim(mail)
  assert.equal(heir!.generation, 2)
  const writes = [
    () => job.complete(),
    () => withTransaction(db.pool, (tx) => job.complete(1, { tx })),
    () => job.fail('x'),
    () => job.bury('x'),
    () => job.snooze('1s'),
    () => job.release(),
    () => job.cancel(),
    () => job.renew(),
    () => job.progress('x'),
  ]
  for (const write of writes) await assert.rejects(write, LeaseLostError, String(write))
  const { status, generation, progress } = (await lh.get(job.id))!
  assert.deepEqual([status, generation, progress], ['processing', 2, { percent: 50 }])
  await heir!.complete('by the heir')
})

test('one outcome counts: a second throws, whichever they are', async (t) => {
  const { lh } = await scene(t)
  const outcomes: ((job: ManualJob) => Promise<unknown>)[] = [
    (job) => job.complete(),
    (job) => job.fail('x'),
    (job) => job.bury('x'),
    (job) => job.snooze('1h'),
    (job) => job.release(),
    (job) => job.cancel(),
  ]
  for (const [index, first] of outcomes.entries()) {
    const one = kind<number>(`kind-${index}`)
    await lh.enqueueMany(
      one,
      outcomes.map((_, input) => ({ input })),
    )
    const jobs = await lh.claim(one, { limit: outcomes.length })
    for (const [which, second] of outcomes.entries()) {
      await first(jobs[which]!)
      const before = await lh.get(jobs[which]!.id)
      await assert.rejects(second(jobs[which]!), LeaseLostError)
      assert.deepEqual(await lh.get(jobs[which]!.id), before)
    }
  }
})

test('an input that no longer fits its kind is a dead letter, and its handler is not called', async (t) => {
  const { lh, worker } = await scene(t)
  const strict = kind('strict', { input: z.object({ n: z.number() }), maxAttempts: 5 })
  const { jobId } = await lh.enqueue(kind('strict'), { n: 'one' })
  const ran: unknown[] = []
  const dead = next(worker([handle(strict, (job) => void ran.push(job.input))]), 'dead_letter')
  assert.equal((await dead).reason, 'invalid_input')
  const { status, reason, lastError, attempts } = (await lh.get(jobId))!
  assert.deepEqual([status, reason, lastError?.code, attempts], ['dead_letter', 'invalid_input', 'INVALID_INPUT', 1])
  assert.match(lastError!.message, /n: /)
  assert.deepEqual(ran, [])
})

test('claimed by hand, an input that does not fit is a dead letter, and the others are returned', async (t) => {
  const { lh, db, log } = await scene(t)
  const strict = kind('strict', { input: z.object({ n: z.coerce.date().transform((at) => at.getTime()) }) })
  const loose = kind<unknown>('strict')
  const [, bad] = await lh.enqueueMany(loose, [{ input: { n: '1970-01-02' } }, { input: [] }, { input: { n: 7 } }])
  const jobs = await lh.claim(strict, { limit: 10 })
  assert.deepEqual(
    jobs.map(({ input }) => input.n),
    [86_400_000, 7],
  )
  const { status, reason } = (await lh.get(bad!.jobId))!
  assert.deepEqual([status, reason], ['dead_letter', 'invalid_input'])
  assert.deepEqual(
    log.filter(({ level }) => level === 'error').map(({ jobId }) => jobId),
    [bad!.jobId],
  )
  for (const job of jobs) await job.release()
  assert.equal(await count(db, 'from leasehold.job where claim_id is null'), 2)
})

test('claimed by hand, an error thrown by the schema costs an attempt, as in a worker', async (t) => {
  const { lh } = await scene(t)
  const broken = kind('broken', {
    input: z.unknown().transform(() => {
      throw new Error('the lookup could not be made')
    }),
  })
  const { jobId } = await lh.enqueue(kind<number>('broken'), 1)
  assert.deepEqual(await lh.claim(broken), [])
  const { status, label, lastError } = (await lh.get(jobId))!
  assert.deepEqual([status, label, lastError?.message], ['pending', 'retrying', 'the lookup could not be made'])
})

test('suspects are claimed by hand when nothing else waits', async (t) => {
  const { lh, db, job } = await claimed(t)
  await db.clock.advance('1 hour')
  await lh.drain([handle(kind('nothing'), () => {})])
  assert.equal((await jobRow(db, job.id)).crashes, 1)
  const other = await lh.enqueue(mail, { to: 'bob' })
  const first = await lh.claim(mail, { limit: 10 })
  assert.deepEqual(
    first.map(({ id }) => id),
    [other.jobId],
  )
  const second = await lh.claim(mail, { limit: 10 })
  assert.deepEqual(
    second.map(({ id }) => id),
    [job.id],
  )
})
