// Calls that would wait for themselves are refused.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { withTransaction } from '../../src/index.ts'
import { again, claimed, ledger, returned } from '../support/effects.ts'
import { gate } from '../support/gate.ts'
import { session } from '../support/queue.ts'
import { codeOf, scene } from '../support/worker.ts'

test('once inside an effect of the same name is refused, and the effect can go on', async (t) => {
  const { lh, db } = await scene(t)
  const job = await claimed(lh)
  const nested = () => job.once('a', () => assert.fail('it is being run'))
  assert.equal(await job.once('a', () => codeOf(nested)), 'INVALID_OPTION')
  assert.equal(await job.once('b', () => job.once('c', () => codeOf(() => job.once('b', () => 1)))), 'INVALID_OPTION')
  const within = withTransaction(db.pool, (tx) =>
    job.once('d', () => codeOf(() => job.once('d', () => 1, { tx })), { tx }),
  )
  assert.equal(await within, 'INVALID_OPTION')
  assert.deepEqual(await ledger(lh, job), ['a done by 1', 'b done by 1', 'c done by 1', 'd done by 1'])
})

test('once inside an effect of another name, or of another job, runs; so does a call that an effect leaves for later', async (t) => {
  const { lh } = await scene(t)
  const [job, other] = [await claimed(lh), await claimed(lh)]
  assert.equal(await job.once('a', () => other.once('a', () => job.once('b', () => 'inner'))), 'inner')
  const goOn = gate()
  const later: Promise<unknown>[] = []
  const leaves = () => {
    later.push(goOn.opened.then(() => job.once('c', () => assert.fail('it is done'))))
    return 'first'
  }
  assert.equal(await job.once('c', leaves), 'first')
  goOn.open()
  assert.equal(await later[0], 'first')
})

test('once outside a transaction that has completed the job is refused instead of waiting', async (t) => {
  const { lh, db } = await scene(t)
  const job = await claimed(lh)
  const { client } = await session(db)
  await client.query('begin')
  await job.once('receipt', () => 1, { tx: client })
  await job.complete(1, { tx: client })
  assert.equal(await codeOf(() => job.once('mail', () => assert.fail('it would wait'))), 'INVALID_OPTION')
  await client.query('commit')
  assert.deepEqual(await ledger(lh, job), ['receipt done by 1'])
})

test('a complete(tx) that lost the lease does not block other effects', async (t) => {
  const { lh, db } = await scene(t)
  const job = await claimed(lh)
  await returned(db)
  await again(lh)
  const complete = () => withTransaction(db.pool, (tx) => job.complete(1, { tx }))
  assert.equal(await codeOf(complete), 'LEASE_LOST')
  assert.equal(await codeOf(() => job.once('mail', () => assert.fail('it is not ours'))), 'LEASE_LOST')
})
