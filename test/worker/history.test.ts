// Records: the attempts of a job, why it was cancelled, and operator actions.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Cancel, handle, type JobId, kind, RetryAfter, Snooze } from '../../src/index.ts'
import { claimed, failureOf } from '../support/effects.ts'
import { codeOf, doing, next, type Scene, scene, untilStatus } from '../support/worker.ts'

const task = kind<number>('task')

async function actions({ db }: Scene): Promise<unknown[]> {
  const { rows } = await db.pool.query('select * from leasehold.operator_actions order by id')
  assert.ok(rows.every(({ at }) => at instanceof Date))
  return rows.map(({ action, by, outcome, job_id: jobId, detail }) => [action, by, outcome, jobId, detail])
}

test('attempts lists how each claim of a job ended, oldest first, with its worker and its error', async (t) => {
  const { busy, add, lh } = await doing(
    t,
    ({ generation }) => {
      if (generation === 1) throw new Snooze(0)
      if (generation === 2) throw new RetryAfter(0, 'not yet')
      return 'done'
    },
    { worker: { label: 'clerk' } },
  )
  const completed = next(busy, 'completed')
  const jobId = await add()
  await completed
  const attempts = await lh.attempts(jobId)
  assert.deepEqual(
    attempts.map(({ attempt, generation, outcome, error }) => [attempt, generation, outcome, error?.message]),
    [
      [1, 1, 'snoozed', undefined],
      [1, 2, 'failed', 'not yet'],
      [2, 3, 'completed', undefined],
    ],
  )
  for (const { worker, startedAt, endedAt } of attempts) {
    assert.deepEqual(worker, { id: busy.identity.id, label: 'clerk' })
    assert.ok(startedAt instanceof Date && startedAt <= endedAt)
  }
})

test('attempts shows a crash and a release, and that of a worker that is no longer registered by its id', async (t) => {
  const { lh, db } = await scene(t)
  const { jobId } = await lh.enqueue(task, 1)
  const [first] = await lh.claim(task)
  await first!.release()
  await lh.claim(task)
  await db.clock.advance('1 hour')
  await lh.drain([handle(kind('nothing'), () => {})]) // Sweeps.
  await db.pool.query('delete from leasehold.worker')
  const attempts = await lh.attempts(jobId)
  assert.deepEqual(
    attempts.map(({ outcome }) => outcome),
    ['released', 'crashed'],
  )
  assert.equal(attempts[0]!.worker.id, attempts[1]!.worker.id)
  assert.deepEqual([attempts[0]!.worker.label, attempts[0]!.error], [null, null])
  assert.deepEqual(await lh.attempts('999999'), [])
  assert.equal(await codeOf(() => lh.attempts('1; drop')), 'INVALID_OPTION')
})

test('a handler that throws Cancel leaves its text with the job, and an attempt', async (t) => {
  const { busy, add, lh } = await doing(t, () => {
    throw new Cancel('order withdrawn')
  })
  const cancelled = next(busy, 'cancelled')
  const jobId = await add()
  await cancelled
  const { status, reason } = (await lh.get(jobId))!
  assert.deepEqual([status, reason], ['cancelled', 'order withdrawn'])
  const [attempt, ...others] = await lh.attempts(jobId)
  assert.deepEqual([attempt?.outcome, attempt?.error?.message, others], ['cancelled', 'order withdrawn', []])
})

test('a handler that throws Snooze leaves an attempt', async (t) => {
  const { busy, add, lh } = await doing(t, () => {
    throw new Snooze('1h')
  })
  const snoozed = next(busy, 'snoozed')
  const jobId = await add()
  await snoozed
  const [attempt, ...others] = await lh.attempts(jobId)
  assert.deepEqual([attempt?.outcome, attempt?.attempt, others], ['snoozed', 1, []])
})

test('a running job that an operator cancels keeps the reason and the name of the operator', async (t) => {
  const setting = await doing(
    t,
    ({ signal }) => new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
  )
  const { busy, add, lh } = setting
  const [started, cancelled] = [next(busy, 'started'), next(busy, 'cancelled')]
  const jobId = await add()
  await started
  assert.equal(await lh.cancel(jobId, { by: 'ada', reason: 'customer called' }), 'requested')
  await cancelled
  const { status, reason } = (await lh.get(jobId))!
  assert.deepEqual([status, reason], ['cancelled', 'customer called'])
  assert.deepEqual(
    (await lh.attempts(jobId)).map(({ outcome }) => outcome),
    ['cancelled'],
  )
  assert.deepEqual(await actions(setting), [['cancel', 'ada', 'requested', jobId, 'customer called']])
})

test('cancel, redrive and settleEffect leave a row each, with the operator', async (t) => {
  const setting = await scene(t)
  const { lh, db } = setting
  const pending = (await lh.enqueue(task, 1)).jobId
  assert.equal(await lh.cancel(pending, { by: 'ada', reason: 'twice' }), 'cancelled')
  assert.equal((await lh.get(pending))?.reason, 'twice')

  const job = await claimed(lh)
  await job.bury(await failureOf(job.once('charge', () => Promise.reject(new Error('hung up')))))
  assert.equal(await lh.settleEffect(job.id, 'charge', { happened: true, result: 7, by: 'bob' }), 'settled')
  assert.deepEqual(await lh.redrive(job.id, { by: 'bob' }), [job.id])

  const frail = kind<number>('frail', { maxAttempts: 1 })
  const dead = (await lh.enqueueMany(frail, [{ input: 1 }, { input: 2 }])).map(({ jobId }) => jobId)
  for (const one of await lh.claim(frail, { limit: 2 })) await one.fail('no')
  for (const jobId of dead) await untilStatus(db, jobId, 'dead_letter')
  assert.deepEqual(await lh.redrive([dead[0]!], { by: 'eve' }), [dead[0]])
  assert.deepEqual(await lh.redrive({ kind: frail }), [dead[1]])

  assert.deepEqual(await actions(setting), [
    ['cancel', 'ada', 'cancelled', pending, 'twice'],
    ['settle_effect', 'bob', 'happened', job.id, 'charge'],
    ['redrive', 'bob', 'pending', job.id, null],
    ['redrive', 'eve', 'pending', dead[0], null],
    ['redrive', null, 'pending', dead[1], null],
  ])
})

test('a call that changes no job leaves no row, and by and reason are checked', async (t) => {
  const setting = await scene(t)
  const { lh } = setting
  const missing = '999999' as JobId
  assert.equal(await lh.cancel(missing, { by: 'ada' }), 'not_found')
  assert.deepEqual(await lh.redrive(missing, { by: 'ada' }), [])
  assert.equal(await lh.settleEffect(missing, 'charge', { happened: true, by: 'ada' }), 'nothing_to_settle')
  const wrong = (options: object) => options as never
  for (const call of [
    () => lh.cancel(missing, { by: '' }),
    () => lh.cancel(missing, { reason: 'a\0b' }),
    () => lh.cancel(missing, wrong({ why: 'x' })),
    () => lh.redrive(missing, { by: 'x'.repeat(201) }),
    () => lh.redrive(missing, wrong({ limit: 1 })),
    () => lh.settleEffect(missing, 'charge', wrong({ happened: true, by: 7 })),
  ]) {
    assert.equal(await codeOf(call), 'INVALID_OPTION', String(call))
  }
  assert.deepEqual(await actions(setting), [])
})
