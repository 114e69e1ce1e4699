// A job, its claim and the sequence's WAL record are acknowledged and then lost in a failover. The sequence assigns the same
// id to another job. The worker that holds the lost job must not touch the new one.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { Lane } from '../../src/db/lane.ts'
import { kind, Leasehold } from '../../src/index.ts'
import { complete } from '../../src/jobs/completion.ts'
import { FAILOVERS, type KindOfFailover, useUpLoggedIds } from '../support/failover.ts'
import { enqueueOne, jobRow } from '../support/queue.ts'
import {
  cancelReachesTheRightfulHolder,
  claimIn,
  type Holder,
  isForTheRightfulHolder,
  receipts,
  recordIsAboutTheClaim,
  WRITES,
} from './writes.ts'

const charge = kind<{ order: string }>('charge')
const QUEUES = [...Object.keys(WRITES), 'result', 'recorded', 'cancel request', 'outside']

/** Two jobs with one id in each queue: X, which was lost while its holder worked, and Y, which waits. */
async function failedOver({ event, start }: KindOfFailover) {
  const db = await start()
  after(() => db.stop())
  const lane = new Lane(db.pool)
  const leasehold = new Leasehold({ pool: db.pool })
  const { lost } = await db.failOver(
    () => useUpLoggedIds(db),
    async () => {
      const { jobId } = await leasehold.enqueue(charge, { order: 'X' })
      const { created_at: createdAt } = (await db.pool.query(CREATED_AT, [jobId])).rows[0]
      const [job] = await leasehold.claim(charge)
      const holders = new Map<string, Holder>()
      for (const queue of QUEUES) {
        await enqueueOne(lane, { queue, input: { order: 'X' } })
        holders.set(queue, await claimIn(db, queue, 'stale'))
      }
      return { job: job!, createdAt, holders }
    },
  )
  assert.equal((await leasehold.enqueue(charge, { order: 'Y' })).jobId, lost.job.id)
  for (const [queue, { lease }] of lost.holders)
    assert.equal(await enqueueOne(lane, { queue, input: { order: 'Y' } }), lease.jobId)
  return { event, db, lane, leasehold, lost, staleHolderOf: (queue: string) => lost.holders.get(queue)! }
}

/** As text, which keeps the microseconds. */
const CREATED_AT = 'select created_at::text from leasehold.job where id = $1'

// Every failover comes before the first test: Node runs the hooks of a file once the tests registered so far have ended.
for (const { event, db, lane, leasehold, lost, staleHolderOf } of await Promise.all(FAILOVERS.map(failedOver))) {
  for (const [name, write] of Object.entries(WRITES)) {
    test(`${name}: the holder of a lost job cannot touch another job with its id after ${event}`, () =>
      isForTheRightfulHolder(db, write, staleHolderOf(name)))
  }

  test(`a job whose id was used before completes with its own result after ${event}`, async () => {
    const stale = staleHolderOf('result')
    const { worker, lease } = await claimIn(db, 'result', 'rightful')
    const refused = await complete(lane, stale.worker, [{ ...stale.lease, result: { charged: 'X' } }])
    assert.equal(refused.refused.length, 1)
    await complete(lane, worker, [{ ...lease, result: { charged: 'Y' } }])
    const { status, payload, result } = await jobRow(db, lease.jobId)
    assert.deepEqual(
      { status, payload, result },
      { status: 'completed', payload: { order: 'Y' }, result: { charged: 'Y' } },
    )
  })

  test(`a stale holder that queries its outcome gets superseded after ${event}`, () =>
    recordIsAboutTheClaim(db, staleHolderOf('recorded')))

  test(`a request to cancel reaches the rightful holder alone after ${event}`, () =>
    cancelReachesTheRightfulHolder(db, staleHolderOf('cancel request')))

  test(`a fenced table in another database refuses the holder of the lost job after ${event}`, async (t) => {
    const stale = staleHolderOf('outside')
    const receipt = await receipts(t, stale.lease.jobId)
    assert.equal(await receipt.write(stale), 'applied', 'it held the job')
    assert.equal(await receipt.write(await claimIn(db, 'outside', 'rightful')), 'applied')
    assert.equal(await receipt.write(stale), 'stale')
    assert.equal(await receipt.holder(), 'rightful')
  })

  test(`two jobs with one id have different effect keys after ${event}`, async () => {
    // Created in the same microsecond, as by a clock that was set back.
    await db.pool.query('update leasehold.job set created_at = $2 where id = $1', [lost.job.id, lost.createdAt])
    const [job] = await leasehold.claim(charge)
    assert.equal(job?.id, lost.job.id)
    assert.equal(job?.input.order, 'Y')
    assert.equal((await db.pool.query(CREATED_AT, [job?.id])).rows[0].created_at, lost.createdAt)
    assert.notEqual(job?.effectKey('card'), lost.job.effectKey('card'))
    assert.equal(job?.effectKey('card'), job?.effectKey('card'))
  })
}
