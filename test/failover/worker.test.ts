// The same failovers through the public API: the claim of a worker, or of a job claimed by hand, is acknowledged and lost.
import assert from 'node:assert/strict'
import { after, type TestContext, test } from 'node:test'
import { handle, type Job, kind, Leasehold, type ManualJob, type Worker, withTransaction } from '../../src/index.ts'
import { FAILOVERS, type FailingDatabase, type KindOfFailover } from '../support/failover.ts'
import { gate } from '../support/gate.ts'
import { codeOf, inTime, lastFirst, next, run } from '../support/worker.ts'

const charge = kind<number>('charge')
const refund = kind<number>('refund')

const undo = lastFirst({ after } as TestContext)

/** A worker in the middle of its one job. It has no room for another, and renews its lease long after the test. */
async function workerWithJob(db: FailingDatabase, label: string) {
  const leasehold = new Leasehold({ connectionString: db.url, log: () => {} })
  const [begun, open] = [gate(), gate()]
  let job: Job<number> | undefined
  const handler = handle(charge, async (given) => {
    job = given
    begun.open()
    await open.opened
    return { by: label }
  })
  undo.after(() => leasehold.close())
  const options = { concurrency: 1, prefetch: 0, lease: '10m', poll: 20, signals: [] } as const
  const worker = run(undo, leasehold.worker([handler], options))
  undo.after(open.open)
  await inTime(begun.opened, `${label} starts no job`)
  return { worker, job: job!, finish: open.open }
}

/** The event that reports the outcome of its job. */
function reported(worker: Worker): Promise<string> {
  const events = ['completed', 'refused', 'unknown', 'retrying', 'released', 'dead_letter'] as const
  return Promise.race(events.map((event) => next(worker, event).then(() => event)))
}

async function failedOver({ event, start }: KindOfFailover) {
  const db = await start()
  undo.after(() => db.stop())
  const leasehold = new Leasehold({ pool: db.pool })
  const { kept, lost } = await db.failOver(
    async () => ({
      charged: (await leasehold.enqueue(charge, 1)).jobId,
      refunded: (await leasehold.enqueue(refund, 1)).jobId,
    }),
    async () => ({ holding: await workerWithJob(db, 'stale'), job: (await leasehold.claim(refund))[0]! }),
  )
  return { event, db, leasehold, ...kept, stale: lost }
}

// Every failover comes before the first test: Node runs the hooks of a file once the tests registered so far have ended.
for (const scene of await Promise.all(FAILOVERS.map(failedOver))) {
  const { event, db, leasehold, charged, refunded, stale } = scene

  test(`a worker reports refused, and the job completes under its next holder after ${event}`, async () => {
    const { holding } = stale
    assert.equal(holding.job.id, charged)
    assert.equal((await leasehold.get(charged))?.status, 'pending')
    const rightful = await workerWithJob(db, 'rightful')
    assert.equal(rightful.job.id, charged)

    const ofTheStale = reported(holding.worker)
    holding.finish()
    assert.equal(await ofTheStale, 'refused')
    assert.equal((await leasehold.get(charged))?.status, 'processing')

    const ofTheRightful = reported(rightful.worker)
    rightful.finish()
    assert.equal(await ofTheRightful, 'completed')
    const job = await leasehold.get(charged)
    assert.deepEqual([job?.status, job?.result, job?.attempts], ['completed', { by: 'rightful' }, 1])
    assert.ok(rightful.job.generation > holding.job.generation)
    assert.equal(rightful.job.effectKey('card'), holding.job.effectKey('card'), 'it is the same job')
  })

  test(`a job claimed by hand throws LeaseLostError from every call after ${event}`, async (t) => {
    const { job } = stale
    const calls: Record<string, (job: ManualJob<number>) => Promise<unknown>> = {
      complete: (job) => job.complete('late'),
      'complete in a transaction': (job) => withTransaction(db.pool, (tx) => job.complete('late', { tx })),
      fail: (job) => job.fail(new Error('late')),
      bury: (job) => job.bury(new Error('late')),
      snooze: (job) => job.snooze('1s'),
      release: (job) => job.release(),
      cancel: (job) => job.cancel(),
      progress: (job) => job.progress('late'),
      renew: (job) => job.renew(),
      assertLease: (job) => withTransaction(db.pool, (tx) => job.assertLease(tx)),
      once: (job) => job.once('card', () => assert.fail('the effect ran')),
    }
    const refused = async (when: string) => {
      for (const [name, call] of Object.entries(calls))
        assert.equal(await codeOf(() => call(job)), 'LEASE_LOST', `${name}, ${when}`)
    }
    await refused('while the job is pending')
    const [rightful] = await leasehold.claim(refund)
    assert.equal(rightful?.id, refunded)
    await refused('while it is held')

    const lost = (callback: (error: Error) => void) => callback(new Error('connection lost'))
    t.mock.method(db.pool, 'connect', lost as typeof db.pool.connect, { times: 1 })
    assert.notEqual(await codeOf(() => job.complete('late')), 'LEASE_LOST', 'nothing was answered')
    assert.equal(await codeOf(() => job.complete('late')), 'LEASE_LOST', 'it asks what was recorded')

    await rightful!.complete('in time')
    await refused('when it is completed')
    assert.deepEqual((await leasehold.get(refunded))?.result, 'in time')
  })
}
