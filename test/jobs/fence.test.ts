// Promise 3: every write names its claim; a stale one changes nothing and is refused. Every claim raises the generation.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { LeaseLostError } from '../../src/core/errors.ts'
import { Lane } from '../../src/db/lane.ts'
import { withTransaction } from '../../src/db/transaction.ts'
import { claim, newClaimId, renew } from '../../src/jobs/claim.ts'
import { complete, completeWithin } from '../../src/jobs/completion.ts'
import { sweep } from '../../src/jobs/housekeeping.ts'
import { type Lease, leaseOf } from '../../src/jobs/job.ts'
import { cancel } from '../../src/jobs/operator.ts'
import { COMPLETE } from '../../src/jobs/outcome.sql.ts'
import { cancelRequests, progress, recorded, type Settlement, settle } from '../../src/jobs/outcome.ts'
import { ScanCursors } from '../../src/jobs/scan-cursors.ts'
import { suiteDatabase } from '../support/database.ts'
import { claimNext, enqueueOne, jobRow, LEASE_MS, newWorker } from '../support/queue.ts'

const db = await suiteDatabase()
const lane = new Lane(db.pool)

/** A job that one worker lost and another has claimed since. */
async function takenOver(queue: string) {
  const jobId = await enqueueOne(lane, { queue })
  const [old, current] = [newWorker('old'), newWorker('current')]
  const oldClaim = newClaimId()
  const request = { claimId: oldClaim, worker: old, kinds: ['mail'], limit: 1, leaseMs: LEASE_MS }
  const [stale] = await claim(lane, request, new ScanCursors([queue]).next().walk)
  await settle(lane, old, [{ ...stale!, verb: 'release' }])
  const [held] = await claimNext(lane, { queues: [queue], kinds: ['mail'], worker: current })
  assert.equal(held?.jobId, jobId)
  assert.ok(held!.generation > stale!.generation && Number.isSafeInteger(held!.generation))
  return { jobId, old, oldClaim, current, stale: stale!, held: held! }
}

async function rowOf(jobId: string) {
  const { rows } = await db.pool.query('select ctid::text, xmin::text, * from leasehold.job where id = $1', [jobId])
  return rows
}

for (const keepMs of [1_000, false] as const) {
  test(`a stale complete changes nothing and is refused, ${keepMs === false ? 'not ' : ''}kept`, async () => {
    const { jobId, old, stale } = await takenOver(`complete ${keepMs}`)
    const before = await rowOf(jobId)
    const answer = await complete(lane, old, [{ ...stale, result: 'mine', keepMs }])
    assert.deepEqual(answer, { refused: [leaseOf(stale)], busy: [] })
    assert.deepEqual(await rowOf(jobId), before)
  })
}

test('without the claim in its where clause the completion would accept the stale worker', async () => {
  const { jobId, old, stale } = await takenOver('unfenced')
  const unfenced = COMPLETE.replace(/claim_id = (.*)/, '$1 is not null').replace('job.complete', 'job.unfenced')
  assert.notEqual(unfenced, COMPLETE)
  await lane.run(unfenced, [[stale.jobId], [stale.claimId], [null], [1000], old.id])
  assert.equal((await jobRow(db, jobId)).status, 'completed', 'this is what the fence prevents')
})

const settlements: readonly [string, (lease: Lease) => Settlement][] = [
  ['fail', (lease) => ({ ...lease, verb: 'fail', error: new Error('late'), delayMs: 0 })],
  ['bury', (lease) => ({ ...lease, verb: 'bury', error: new Error('late'), reason: 'fatal' })],
  ['snooze', (lease) => ({ ...lease, verb: 'snooze', delayMs: 0 })],
  ['release', (lease) => ({ ...lease, verb: 'release' })],
  ['cancel', (lease) => ({ ...lease, verb: 'cancel' })],
]
for (const [verb, settlement] of settlements) {
  test(`a stale ${verb} changes nothing and is refused`, async () => {
    const { jobId, old, stale } = await takenOver(verb)
    const before = await rowOf(jobId)
    const answer = await settle(lane, old, [settlement(leaseOf(stale))])
    assert.deepEqual(answer, [{ ...leaseOf(stale), outcome: 'refused' }])
    assert.deepEqual(await rowOf(jobId), before)
    const attempts = await db.pool.query('select outcome from leasehold.job_attempt where job_id = $1', [jobId])
    assert.deepEqual(attempts.rows, [{ outcome: 'released' }], 'only the take-over itself is on record')
  })
}

test('a stale progress note changes nothing and is refused', async () => {
  const { jobId, stale, held } = await takenOver('progress')
  assert.equal(await progress(lane, held, { done: 1 }), 'noted')
  const before = await rowOf(jobId)
  assert.equal(await progress(lane, stale, { done: 99 }), 'refused')
  assert.deepEqual(await rowOf(jobId), before)
  assert.deepEqual((await jobRow(db, jobId)).progress, { done: 1 })
})

test('a stale complete inside a transaction throws LeaseLostError, so that the transaction rolls back', async () => {
  const { jobId, old, stale } = await takenOver('within')
  const before = await rowOf(jobId)
  await assert.rejects(
    withTransaction(db.pool, (tx) => completeWithin(lane.within(tx), old, stale)),
    (error: unknown) => error instanceof LeaseLostError && error.code === 'LEASE_LOST' && error.jobId === jobId,
  )
  assert.deepEqual(await rowOf(jobId), before)
})

test('a request to cancel reaches the worker that holds the job, and not the one that lost it', async () => {
  const { jobId, stale, held } = await takenOver('cancel-request')
  assert.deepEqual(await cancel(lane, [jobId]), [{ jobId, outcome: 'requested' }])
  assert.deepEqual(await cancelRequests(lane, [stale, held]), [jobId])
})

test('the results of one batch are matched to their jobs', async () => {
  const lost = await takenOver('mixed')
  const fine = await takenOver('mixed')
  const answer = await complete(lane, lost.old, [lost.stale, fine.held])
  assert.deepEqual(answer, { refused: [leaseOf(lost.stale)], busy: [] })
  assert.equal((await jobRow(db, fine.jobId)).status, 'completed')
  assert.equal((await jobRow(db, lost.jobId)).status, 'processing')
})

test('a second outcome of the same claim is refused after any first', async () => {
  for (const [, settlement] of settlements) {
    const { held, current } = await takenOver('second')
    const [first] = await settle(lane, current, [settlement(leaseOf(held))])
    assert.notEqual(first?.outcome, 'refused')
    assert.equal((await complete(lane, current, [held])).refused.length, 1)
    assert.equal((await settle(lane, current, [{ ...held, verb: 'release' }]))[0]?.outcome, 'refused')
    await db.pool.query("delete from leasehold.job where queue = 'second'")
  }
})

test('a wrong claim and a wrong id taken from one batch do not add up to a right pair', async () => {
  // Two separate arrays under = ANY would accept this; pairs do not.
  const a = await takenOver('pairs')
  const bId = await enqueueOne(lane, { queue: 'pairs-b' })
  const [b] = await claimNext(lane, { queues: ['pairs-b'], kinds: ['mail'], worker: a.old })
  const answer = await complete(lane, a.old, [
    { ...a.held, claimId: b!.claimId },
    { ...b!, claimId: a.held.claimId },
  ])
  assert.equal(answer.refused.length, 2)
  assert.equal((await jobRow(db, a.jobId)).status, 'processing')
  assert.equal((await jobRow(db, bId)).status, 'processing')
})

test('after a lost reply the outcome of the claim can be queried', async (t) => {
  const { jobId, current, stale, held } = await takenOver('recorded')
  const ask = async (lease: Lease) => (await recorded(lane, [lease]))[0]
  assert.equal(await ask(held), 'held')
  assert.equal(await ask(stale), 'released')
  assert.deepEqual(await recorded(lane, [stale, held, { ...held, claimId: newClaimId() }]), [
    'released',
    'held',
    'superseded',
  ])
  await settle(lane, current, [{ ...held, verb: 'snooze', delayMs: 0 }])
  assert.equal(await ask(held), 'snoozed')
  const next = async () => (await claimNext(lane, { queues: ['recorded'], kinds: ['mail'], worker: current }))[0]!
  const failing = await next()
  await settle(lane, current, [{ ...failing, verb: 'fail', error: 'x', delayMs: 0 }])
  assert.equal(await ask(failing), 'failed')
  const third = await next()
  assert.equal(await ask(held), 'snoozed', 'also after the next claim')
  await complete(lane, current, [third])
  assert.equal(await ask(third), 'completed')
  assert.equal(await ask(held), 'snoozed')
  assert.equal(await ask({ ...third, jobId, claimId: newClaimId() }), 'superseded')

  const cancelled = await takenOver('recorded-cancel')
  await settle(lane, cancelled.current, [{ ...cancelled.held, verb: 'release' }])
  await cancel(lane, [cancelled.jobId])
  assert.equal(await ask(cancelled.held), 'released', 'cancelled later, by an operator')

  const gone = await takenOver('not-kept')
  await complete(lane, gone.current, [{ ...gone.held, keepMs: false }])
  assert.equal(await ask(gone.held), 'unknown', 'never stale: it may well have been ours')

  const dead = await takenOver('recorded-dead')
  await settle(lane, dead.current, [{ ...dead.held, verb: 'bury', error: 'x', reason: 'fatal' }])
  assert.equal(await ask(dead.held), 'dead_letter')

  const swept = await takenOver('recorded-swept')
  await db.clock.advance('31 s')
  t.after(() => db.clock.reset())
  await sweep(lane)
  assert.equal(await ask(swept.held), 'crashed', 'the sweep took it, whatever the worker tried since')
})

test('a stale renewal changes nothing and is refused', async (t) => {
  const { old, oldClaim } = await takenOver('renew')
  // The claim is still in the ledger although its job moved on: until it is swept the renewal is harmless.
  await db.clock.advance('31 s')
  t.after(() => db.clock.reset())
  assert.ok((await sweep(lane)).claims > 0)
  const answer = await renew(lane, old, [oldClaim], LEASE_MS)
  assert.deepEqual(answer, { held: [], lost: [oldClaim] })
  const { rowCount } = await db.pool.query('select from leasehold.claim where id = $1', [oldClaim])
  assert.equal(rowCount, 0)
})

test('only the worker that claimed can renew', async () => {
  const { oldClaim, old } = await takenOver('renew-owner')
  assert.deepEqual(await renew(lane, newWorker(), [oldClaim], LEASE_MS), { held: [], lost: [oldClaim] })
  assert.deepEqual(await renew(lane, old, [oldClaim], LEASE_MS), { held: [oldClaim], lost: [] })
})
