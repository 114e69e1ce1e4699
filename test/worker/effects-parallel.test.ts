// Effects that outlive their handler: the job is released when they have ended, too.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Job, NotDone } from '../../src/index.ts'
import { failureOf, ledger } from '../support/effects.ts'
import { gate } from '../support/gate.ts'
import { movableTimers } from '../support/movable-clock.ts'
import { jobRow } from '../support/queue.ts'
import { until } from '../support/until.ts'
import { codeOf, doing, next, type Setting, statements, untilStatus } from '../support/worker.ts'

const AT_ONCE = { kind: { backoff: { first: 1, max: 1 } } } as const

/** Another job is enqueued and done: any outcome of the first would be recorded by then. */
async function another({ add, db }: Setting): Promise<void> {
  await untilStatus(db, await add(), 'completed')
}

function declinedOnce({ once, attempt }: Job<number>): Promise<number> {
  return once('charge', () => {
    if (attempt === 1) throw new NotDone('declined')
    return 1
  })
}

for (const ifUnknown of ['stop', 'retry'] as const) {
  test(`${ifUnknown}: one of two effects fails, and the job is not released before the other has ended`, async (t) => {
    const [ended, goOn] = [gate(), gate()]
    let mails = 0
    const mail = async () => {
      await goOn.opened
      mails++
    }
    const setting = await doing(
      t,
      async (job) => {
        if (job.input > 0) return
        await Promise.all([job.once('mail', mail, { ifUnknown }), declinedOnce(job)]).finally(ended.open)
      },
      AT_ONCE,
    )
    const { add, db, lh } = setting
    const jobId = await add()
    await ended.opened
    await another(setting)
    const { status, attempts } = await jobRow(db, jobId)
    assert.deepEqual([status, attempts], ['processing', 1])
    goOn.open()
    await untilStatus(db, jobId, 'completed')
    assert.equal(mails, 1)
    assert.deepEqual(await ledger(lh, { id: jobId }), ['mail done by 1', 'charge done by 2'])
  })
}

test('an effect that follows a running one is awaited, too; a later one does not begin', async (t) => {
  const [ended, goOn, later] = [gate(), gate(), gate()]
  const late: Promise<unknown>[] = []
  const setting = await doing(
    t,
    async (job) => {
      if (job.input > 0 || job.attempt > 1) return
      const steps = async () => {
        await job.once('one', () => goOn.opened)
        await job.once('two', () => 2)
      }
      late.push(later.opened.then(() => job.once('three', () => assert.fail('the job is not ours any more'))))
      await Promise.all([steps(), declinedOnce(job)]).finally(ended.open)
    },
    AT_ONCE,
  )
  const { add, busy, db, lh } = setting
  const retrying = next(busy, 'retrying')
  const jobId = await add()
  await ended.opened
  goOn.open()
  await retrying
  assert.deepEqual(await ledger(lh, { id: jobId }), ['one done by 1', 'two done by 1'])
  later.open()
  assert.equal((await failureOf(late[0]!)).code, 'LEASE_LOST')
  await untilStatus(db, jobId, 'completed')
})

test('an effect that never ends holds its job no longer than the timeout of its kind, and then none is begun', async (t) => {
  const clock = movableTimers(t)
  const { opened: never } = gate()
  const jobs: Job<number>[] = []
  const { add, busy } = await doing(
    t,
    async (job) => {
      jobs.push(job)
      await Promise.all([job.once('mail', () => never), Promise.reject(new Error('meanwhile'))])
    },
    { kind: { timeout: 1, backoff: { first: '1h' } } },
  )
  const names = statements(t)
  const retrying = next(busy, 'retrying')
  await add()
  await until('the effect has begun', () => names.includes('effect.begin'))
  clock.pass(2)
  clock.pass(5_001) // A handler has so long to end by itself.
  assert.equal(((await retrying).error as { code: string }).code, 'TIMED_OUT')
  assert.equal(await codeOf(() => jobs[0]!.once('late', () => 1)), 'LEASE_LOST')
  assert.equal(names.filter((name) => name === 'effect.begin').length, 1, 'nobody had to ask')
})
