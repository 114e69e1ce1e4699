// vitest.test.ts
import { assertEnqueued, failNext, refuteEnqueued, runJob, type TestDatabase, testDatabase } from 'leasehold/testing'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { handlers, pay, receipt, remind, reminder, sendReceipt } from './receipts.js'

const input = { order: 9182, email: 'ada@example.com' }

test('a receipt is sent', async () => {
  const run = await runJob(sendReceipt, input) // No database.
  expect(run.outcome).toBe('completed')
})

test('an address that does not exist is not tried again', async () => {
  const run = await runJob(sendReceipt, { ...input, email: 'ada@example.invalid' })
  expect(run).toMatchObject({ outcome: 'dead_letter', reason: 'fatal' })
})

// One database for the tests of this file. A test that must not meet the jobs of others makes its own.
let db: TestDatabase

beforeAll(async () => {
  db = await testDatabase()
  await db.pool.query('create table payment (id integer primary key)')
}, 60_000) // The first run migrates a template.
afterAll(() => db.close())

test('a payment enqueues a receipt and a reminder, and only if it commits', async () => {
  const { pool, leasehold } = db
  await pay(pool, leasehold, input)
  await assertEnqueued(leasehold, receipt, { order: 9182 })
  await assertEnqueued(leasehold, reminder, (_, job) => job.label === 'scheduled')
  await expect(pay(pool, leasehold, { ...input, email: 'bob@example.com' })).rejects.toThrow('duplicate key')
  await refuteEnqueued(leasehold, receipt, { email: 'bob@example.com' })
})

test('a receipt is sent after the mail service was down, and the reminder a month later', async () => {
  const { runs } = await db.clock.drain([failNext(sendReceipt, new Error('down'), { times: 2 }), remind])
  expect(runs.map(({ kind, outcome }) => `${kind} ${outcome}`)).toEqual([
    'receipt retrying',
    'receipt retrying',
    'receipt completed',
    'reminder completed',
  ])
  expect((await db.clock.drain(handlers)).runs).toEqual([])
})
