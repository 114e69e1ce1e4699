// The outcome of a job whose effect failed, was unknown, or outlived its lease.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Lane } from '../../src/db/lane.ts'
import { EffectUnknownError, Fatal, type Job, kind, LeaseLostError, NotDone, withTransaction } from '../../src/index.ts'
import { sweep } from '../../src/jobs/housekeeping.ts'
import { failureOf, ledger } from '../support/effects.ts'
import { gate } from '../support/gate.ts'
import { movableTimers } from '../support/movable-clock.ts'
import { jobRow } from '../support/queue.ts'
import { doing, next, type Scene, statements, untilStatus } from '../support/worker.ts'

/** Of a lease, and a little more: then it is time to renew. */
const A_THIRD_MS = 10_100

async function aborted({ signal }: Job<number>): Promise<never> {
  if (!signal.aborted) await new Promise((resolve) => signal.addEventListener('abort', resolve))
  throw signal.reason
}

/** Another worker claims the job by hand while its handler runs, after the lease has expired. */
async function takeOver({ db, lh }: Scene) {
  await db.clock.advance('1 hour')
  await sweep(new Lane(db.pool))
  return (await lh.claim(kind<number>('task'), { lease: '2h' }))[0]!
}

test('an effect that throws makes the job a dead letter at once, with attempts left and the cause on record', async (t) => {
  const { busy, add, db } = await doing(t, (job) => job.once('charge', () => Promise.reject(new Error('hung up'))))
  const dead = next(busy, 'dead_letter')
  const jobId = await add()
  const { reason, error } = await dead
  assert.ok(error instanceof EffectUnknownError)
  const row = await jobRow(db, jobId)
  const { code, cause } = row.last_error as { code: string; cause: { message: string } }
  assert.deepEqual(
    [reason, row.reason, row.attempts, code, cause.message],
    ['effect_unknown', 'effect_unknown', 1, 'EFFECT_UNKNOWN', 'hung up'],
  )
})

test('the EffectUnknownError of another job is an ordinary failure', async (t) => {
  const { busy, add } = await doing(t, () => {
    throw new EffectUnknownError('999', 'charge', 'then')
  })
  const retrying = next(busy, 'retrying')
  await add()
  assert.ok((await retrying).error instanceof EffectUnknownError)
})

test('the LeaseLostError of another job is an ordinary failure', async (t) => {
  const { busy, add, db } = await doing(t, () => {
    throw new LeaseLostError({ jobId: '999', generation: 1 })
  })
  const retrying = next(busy, 'retrying')
  const jobId = await add()
  assert.ok((await retrying).error instanceof LeaseLostError)
  assert.equal((await jobRow(db, jobId)).attempts, 1, 'it is spent')
})

test('a process suspended beyond its lease begins no effect, even before it notices', async (t) => {
  const errors: unknown[] = []
  const { busy, add, lh } = await doing(t, async (job) => {
    const now = performance.now.bind(performance)
    const { mock } = t.mock.method(performance, 'now', () => now() + 3_600_000)
    const late = failureOf(job.once('charge', () => assert.fail('it is too late')))
    mock.restore()
    errors.push(await late)
  })
  const names = statements(t)
  const completed = next(busy, 'completed')
  const jobId = await add()
  await completed
  assert.ok(errors[0] instanceof LeaseLostError)
  assert.ok(!names.includes('effect.begin'))
  assert.deepEqual(await ledger(lh, { id: jobId }), [])
})

test('NotDone is an ordinary failure with its cause as the error, and the next attempt runs the effect', async (t) => {
  const declined = new Error('declined')
  const options = { kind: { backoff: { first: 1, max: 1 } } }
  const { busy, add, lh } = await doing(
    t,
    (job) =>
      job.once('charge', () => {
        if (job.attempt === 1) throw new NotDone('declined', { cause: declined })
        return job.attempt
      }),
    options,
  )
  const [retrying, completed] = [next(busy, 'retrying'), next(busy, 'completed')]
  const jobId = await add()
  assert.equal((await retrying).error, declined)
  await completed
  assert.equal((await lh.get(jobId))?.result, 2)
  assert.deepEqual(await ledger(lh, { id: jobId }), ['charge done by 2'])
})

test('the cause of NotDone may steer: Fatal is a dead letter for its own reason', async (t) => {
  const { busy, add, lh } = await doing(t, (job) =>
    job.once('charge', () => {
      throw new NotDone('declined', { cause: new Fatal('for good') })
    }),
  )
  const dead = next(busy, 'dead_letter')
  const jobId = await add()
  assert.equal((await dead).reason, 'fatal')
  assert.deepEqual(await lh.effects(jobId), [])
})

test('an effect that stops when its lease is lost stays begun, with LeaseLostError', async (t) => {
  const clock = movableTimers(t)
  const thrown: unknown[] = []
  const heirs: Awaited<ReturnType<typeof takeOver>>[] = []
  const { busy, add, lh } = await doing(t, async (job, setting) => {
    const charge = async () => {
      heirs.push(await takeOver(setting))
      clock.pass(A_THIRD_MS)
      return aborted(job)
    }
    await job.once('charge', charge).catch((error) => {
      thrown.push(error)
      throw error
    })
  })
  const refused = next(busy, 'refused')
  const jobId = await add()
  assert.equal((await refused).generation, 1)
  assert.ok(thrown[0] instanceof LeaseLostError)
  assert.deepEqual(await ledger(lh, { id: jobId }), ['charge started by 1'])
  assert.equal((await lh.get(jobId))?.status, 'processing', 'by its heir')
})

test('an effect aborted by a stop is unknown, and the job becomes a dead letter', async (t) => {
  const begun = gate()
  const { busy, add, db } = await doing(t, (job) =>
    job.once('charge', () => {
      begun.open()
      return aborted(job)
    }),
  )
  const jobId = await add()
  await begun.opened
  await busy.stop({ grace: 1 })
  const { status, reason, last_error } = await jobRow(db, jobId)
  const { cause } = last_error as { cause: { code: string } }
  assert.deepEqual([status, reason, cause.code], ['dead_letter', 'effect_unknown', 'STOPPING'])
})

test('in a handler: a key that lasts, a lease that is asserted, and an effect in a transaction', async (t) => {
  const keys: string[] = []
  const options = { kind: { backoff: { first: 1, max: 1 } } }
  const { busy, add, db, lh } = await doing(
    t,
    async (job, { db }) => {
      keys.push(job.effectKey('charge'))
      await withTransaction(db.pool, async (tx) => {
        await job.assertLease(tx)
        await job.once('receipt', (own) => own.query('create table receipt (n int)').then(() => {}), { tx })
      })
      if (job.attempt === 1) throw new Error('once more')
    },
    options,
  )
  const completed = next(busy, 'completed')
  const jobId = await add()
  await completed
  await untilStatus(db, jobId, 'completed')
  assert.deepEqual([keys.length, new Set(keys).size], [2, 1])
  assert.deepEqual(await ledger(lh, { id: jobId }), ['receipt done by 1'])
})
