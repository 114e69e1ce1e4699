// node.test.ts
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { assertEnqueued, failNext, refuteEnqueued, runJob, testDatabase } from 'leasehold/testing'
import { handlers, pay, receipt, remind, reminder, sendReceipt } from './receipts.js'

const input = { order: 9182, email: 'ada@example.com' }

test('a receipt is sent', async () => {
  const run = await runJob(sendReceipt, input) // No database.
  assert.equal(run.outcome, 'completed')
})

test('an address that does not exist is not tried again', async () => {
  const run = await runJob(sendReceipt, { ...input, email: 'ada@example.invalid' })
  assert.equal(run.outcome, 'dead_letter')
})

// One database for the tests of this file. A test that must not meet the jobs of others makes its own.
const { pool, leasehold, clock, close } = await open()
after(close)

async function open() {
  const db = await testDatabase()
  await db.pool.query('create table payment (id integer primary key)')
  return { pool: db.pool, leasehold: db.leasehold, clock: db.clock, close: () => db.close() }
}

test('a payment enqueues a receipt and a reminder, and only if it commits', async () => {
  await pay(pool, leasehold, input)
  await assertEnqueued(leasehold, receipt, { order: 9182 })
  await assertEnqueued(leasehold, reminder, (_, job) => job.label === 'scheduled')
  await assert.rejects(pay(pool, leasehold, { ...input, email: 'bob@example.com' }))
  await refuteEnqueued(leasehold, receipt, { email: 'bob@example.com' })
})

test('a receipt is sent after the mail service was down, and the reminder a month later', async () => {
  const { runs } = await clock.drain([failNext(sendReceipt, new Error('down'), { times: 2 }), remind])
  assert.deepEqual(
    runs.map(({ kind, outcome }) => `${kind} ${outcome}`),
    ['receipt retrying', 'receipt retrying', 'receipt completed', 'reminder completed'],
  )
  assert.equal((await clock.drain(handlers)).runs.length, 0)
})
