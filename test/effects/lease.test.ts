// A lease held in the caller's transaction: who holds which lock is in decisions/0021.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Lane } from '../../src/db/lane.ts'
import { LeaseLostError, TransactionConflictError } from '../../src/index.ts'
import { complete } from '../../src/jobs/completion.ts'
import { sweep } from '../../src/jobs/housekeeping.ts'
import type { ClaimId, JobId } from '../../src/jobs/job.ts'
import { cancel } from '../../src/jobs/operator.ts'
import { settle } from '../../src/jobs/outcome.ts'
import { waitUntilBlocked } from '../support/database.ts'
import { again, claimed, failureOf, returned, takenOver, task } from '../support/effects.ts'
import { newWorker, session } from '../support/queue.ts'
import { codeOf, type Scene, scene } from '../support/worker.ts'

async function transaction({ db }: Scene, begin = 'begin') {
  const own = await session(db)
  await own.client.query(begin)
  return own
}

test('an asserted lease that expires holds the job until the commit, and the sweep reclaims it after', async (t) => {
  const setting = await scene(t)
  const { db, lh } = setting
  const lane = new Lane(db.pool)
  const job = await claimed(lh)
  const lease = { jobId: job.id, claimId: job.claimId, generation: job.generation }
  const tx = await transaction(setting)
  await job.assertLease(tx.client)
  await db.clock.advance('31s')
  assert.deepEqual((await sweep(lane)).jobs, [])
  assert.deepEqual(await lh.claim(task), [])
  assert.deepEqual((await complete(lane, newWorker(), [lease])).busy, [lease])
  assert.equal((await settle(lane, newWorker(), [{ ...lease, verb: 'release' }]))[0]?.outcome, 'busy')
  assert.equal((await cancel(lane, [job.id]))[0]?.outcome, 'busy')
  await tx.client.query('commit')
  await returned(db)
  assert.equal((await again(lh)).generation, 2)
})

test('a job whose lease has expired is held until it is reclaimed', async (t) => {
  const setting = await scene(t)
  const job = await claimed(setting.lh)
  await setting.db.clock.advance('1 hour')
  const tx = await transaction(setting)
  await job.assertLease(tx.client)
})

test('a lost lease cannot be asserted: reclaimed, claimed by another worker, completed', async (t) => {
  const setting = await scene(t)
  const job = await claimed(setting.lh)
  const tx = await transaction(setting)
  await returned(setting.db)
  const assertIt = () => job.assertLease(tx.client)
  assert.equal(await codeOf(assertIt), 'LEASE_LOST')
  const heir = await again(setting.lh)
  assert.equal(await codeOf(assertIt), 'LEASE_LOST')
  await heir.assertLease(tx.client)
  await tx.client.query('commit')
  await heir.complete()
  await tx.client.query('begin')
  assert.equal(await codeOf(assertIt), 'LEASE_LOST')
  assert.equal(await codeOf(() => heir.assertLease(tx.client)), 'LEASE_LOST')
})

test('assertLease waits for a takeover in flight, and is refused', async (t) => {
  const setting = await scene(t)
  const { db, lh } = setting
  const job = await claimed(lh)
  const sweeper = await transaction(setting)
  await db.clock.advance('31s')
  assert.equal((await sweep(sweeper.lane)).jobs.length, 1)
  const tx = await transaction(setting)
  const asserted = job.assertLease(tx.client)
  asserted.catch(() => {})
  await waitUntilBlocked(await db.connect(), tx.pid)
  await sweeper.client.query('commit')
  assert.ok((await failureOf(asserted)) instanceof LeaseLostError)
})

test('assertLease waits for a takeover that rolls back, and then holds the lease', async (t) => {
  const setting = await scene(t)
  const job = await claimed(setting.lh)
  const sweeper = await transaction(setting)
  await setting.db.clock.advance('31s')
  await sweep(sweeper.lane)
  const tx = await transaction(setting)
  const asserted = job.assertLease(tx.client)
  await waitUntilBlocked(await setting.db.connect(), tx.pid)
  await sweeper.client.query('rollback')
  await asserted
})

test('under REPEATABLE READ: a takeover before the snapshot is LeaseLostError, a later one TransactionConflictError', async (t) => {
  const setting = await scene(t)
  const job = await claimed(setting.lh)
  const level = 'begin isolation level repeatable read'
  const tx = await transaction(setting, level)
  await tx.client.query('select') // Its snapshot.
  await job.assertLease(tx.client)
  await tx.client.query('commit')

  await tx.client.query(level)
  await tx.client.query('select')
  await takenOver(setting)
  assert.ok((await failureOf(job.assertLease(tx.client))) instanceof TransactionConflictError)
  await tx.client.query('rollback')
  await tx.client.query(level)
  assert.ok((await failureOf(job.assertLease(tx.client))) instanceof LeaseLostError)
})

test('under REPEATABLE READ, asserted at the start of the transaction, the lease is held to its end', async (t) => {
  const setting = await scene(t)
  const job = await claimed(setting.lh)
  const tx = await transaction(setting, 'begin isolation level repeatable read')
  await job.assertLease(tx.client)
  await setting.db.clock.advance('31s')
  assert.deepEqual((await sweep(new Lane(setting.db.pool))).jobs, [])
  await job.assertLease(tx.client)
  await tx.client.query('commit')
})

test('a rollback to a savepoint releases a lease asserted after it, and not one asserted before', async (t) => {
  const setting = await scene(t)
  const { db } = setting
  const swept = async () => (await sweep(new Lane(db.pool))).jobs.length
  const job = await claimed(setting.lh)
  const { client } = await transaction(setting)
  await job.assertLease(client)
  await client.query('savepoint mine')
  await job.assertLease(client)
  await client.query('rollback to savepoint mine')
  await db.clock.advance('31s')
  assert.equal(await swept(), 0)
  await client.query('rollback; begin; savepoint mine')
  await job.assertLease(client)
  await client.query('rollback to savepoint mine')
  await db.clock.advance('31s')
  assert.equal(await swept(), 1)
})

test('under REPEATABLE READ a completion after a change by others is TransactionConflictError', async (t) => {
  const setting = await scene(t)
  const job = await claimed(setting.lh)
  const { client } = await transaction(setting, 'begin isolation level repeatable read')
  await client.query('select') // Its snapshot.
  await job.progress('a note')
  assert.ok((await failureOf(job.complete(1, { tx: client }))) instanceof TransactionConflictError)
})

test('two transactions of one job hold its lease together; if both complete it, one survives the deadlock', async (t) => {
  const setting = await scene(t)
  const job = await claimed(setting.lh)
  const [one, two] = [await transaction(setting), await transaction(setting)]
  await Promise.all([job.assertLease(one.client), job.assertLease(two.client)])
  const [first, second] = [job.complete(1, { tx: one.client }), job.complete(2, { tx: two.client })]
  const ended = await Promise.allSettled([
    first.finally(() => one.client.query('commit')),
    second.finally(() => two.client.query('commit')),
  ])
  const [victim, ...others] = ended.filter((end) => end.status === 'rejected')
  assert.ok(victim?.reason instanceof TransactionConflictError)
  assert.deepEqual(others, [])
  assert.equal((await setting.lh.get(job.id))?.status, 'completed')
})

test('code that knows the job and its claim can assert the lease', async (t) => {
  const setting = await scene(t)
  const { lh } = setting
  const job = await claimed(lh)
  const tx = await transaction(setting)
  const lease = { id: job.id, claimId: job.claimId, generation: job.generation }
  await lh.assertLease(tx.client, lease)
  assert.equal(await codeOf(() => lh.assertLease(tx.client, { ...lease, claimId: '2' as ClaimId })), 'LEASE_LOST')
  assert.equal(await codeOf(() => lh.assertLease(tx.client, { ...lease, id: '999' as JobId })), 'LEASE_LOST')
  assert.equal(await codeOf(() => lh.assertLease(tx.client, { ...lease, id: 'x' as JobId })), 'INVALID_OPTION')
  assert.equal(await codeOf(() => lh.assertLease(tx.client, { ...lease, claimId: '1.5' as ClaimId })), 'INVALID_OPTION')
  assert.equal(await codeOf(() => lh.assertLease(setting.db.pool, job)), 'INVALID_OPTION')
  assert.equal(await codeOf(() => lh.assertLease({} as never, job)), 'INVALID_OPTION')
})
