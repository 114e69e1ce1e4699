// Messages of a queue that delivers at least once.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Lane } from '../../src/db/lane.ts'
import { pruneMessages } from '../../src/effects/messages.ts'
import { handle, kind, messageSource, TransactionConflictError, withTransaction } from '../../src/index.ts'
import { waitUntilBlocked } from '../support/database.ts'
import { failureOf } from '../support/effects.ts'
import { gate } from '../support/gate.ts'
import { session } from '../support/queue.ts'
import { until } from '../support/until.ts'
import { codeOf, count, type Scene, scene } from '../support/worker.ts'

const orders = messageSource('orders')

async function remembered({ db }: Scene): Promise<number> {
  return count(db, 'from leasehold.processed_message')
}

test('a message is new once its transaction has committed, and not before', async (t) => {
  const { db, lh } = await scene(t)
  const { client } = await session(db)
  for (const [end, isNew] of [
    ['rollback', true],
    ['commit', true],
    ['commit', false],
  ] as const) {
    await client.query('begin')
    assert.equal(await lh.firstTime(client, orders, 'm1'), isNew)
    assert.equal(await lh.firstTime(client, orders, 'm1'), false, 'twice in one transaction')
    await client.query(end)
  }
})

test('of twenty deliveries at once one is applied', async (t) => {
  const setting = await scene(t)
  const { db, lh } = setting
  await db.pool.query('create table balance (amount int); insert into balance values (0)')
  const answers = await Promise.all(
    Array.from({ length: 20 }, () =>
      lh.oncePerMessage(orders, 'm1', async (tx) => {
        const { rows } = await tx.query('update balance set amount = amount + 10 returning amount')
        return rows[0].amount as number
      }),
    ),
  )
  const applied = answers.filter((answer) => answer.outcome === 'applied')
  assert.deepEqual(applied, [{ outcome: 'applied', result: 10 }])
  assert.equal(answers.filter(({ outcome }) => outcome === 'already_handled').length, 19)
  assert.deepEqual((await db.pool.query('select amount from balance')).rows, [{ amount: 10 }])
})

test('a message whose handler throws was not handled', async (t) => {
  const setting = await scene(t)
  const { lh, db } = setting
  await db.pool.query('create table paid (n int)')
  const cause = new Error('x')
  const thrown = await failureOf(
    lh.oncePerMessage(orders, 'm1', async (tx) => {
      await tx.query('insert into paid values (1)')
      throw cause
    }),
  )
  assert.equal(thrown, cause)
  assert.deepEqual([await remembered(setting), await count(db, 'from paid')], [0, 0])
  assert.deepEqual(await lh.oncePerMessage(orders, 'm1', () => 'now'), { outcome: 'applied', result: 'now' })
})

for (const [end, isNew] of [
  ['commit', false],
  ['rollback', true],
] as const) {
  test(`delivered again while it is handled: waits, and after ${end} it is ${isNew ? '' : 'not '}new`, async (t) => {
    const { db, lh } = await scene(t)
    const [one, two] = [await session(db), await session(db)]
    await one.client.query('begin')
    assert.equal(await lh.firstTime(one.client, orders, 'm1'), true)
    await two.client.query('begin')
    const answer = lh.firstTime(two.client, orders, 'm1')
    await waitUntilBlocked(await db.connect(), two.pid)
    await one.client.query(end)
    assert.equal(await answer, isNew)
  })
}

test('under REPEATABLE READ a lost race is TransactionConflictError', async (t) => {
  const { db, lh } = await scene(t)
  const { client } = await session(db)
  await client.query('begin isolation level repeatable read')
  await client.query('select')
  await lh.oncePerMessage(orders, 'm1', () => {})
  assert.ok((await failureOf(lh.firstTime(client, orders, 'm1'))) instanceof TransactionConflictError)
  await client.query('rollback')
})

test('two messages in a deadlock: Postgres aborts one, and it begins again', async (t) => {
  const { lh } = await scene(t)
  const gates = { a: gate(), b: gate() }
  let begun = 0
  const both = (own: 'a' | 'b', other: 'a' | 'b') =>
    lh.oncePerMessage(orders, own, async (tx) => {
      begun++
      gates[own].open()
      await gates[other].opened
      return lh.firstTime(tx, orders, other)
    })
  const answers = await Promise.all([both('a', 'b'), both('b', 'a')])
  assert.deepEqual(
    answers.sort((one, two) => one.outcome.localeCompare(two.outcome)),
    [{ outcome: 'already_handled' }, { outcome: 'applied', result: true }],
  )
  // The loser may return before the winner has its lock, and then both wait for each other once more.
  assert.ok(begun >= 2)
})

test('ids are distinguished by source, to the last byte', async (t) => {
  const setting = await scene(t)
  const { lh, db } = setting
  const ids = ['m1', 'M1', 'm1 ', "'; drop table leasehold.job; --", '📬', 'x'.repeat(1_000)]
  await withTransaction(db.pool, async (tx) => {
    for (const source of [orders, messageSource('refunds')]) {
      for (const id of ids) assert.equal(await lh.firstTime(tx, source, id), true)
    }
  })
  assert.equal(await remembered(setting), 2 * ids.length)
})

test('invalid arguments are refused', async (t) => {
  const { lh, db } = await scene(t)
  const { client } = await session(db)
  await client.query('begin')
  for (const id of ['', 'a\0b', '\udfff', 'x'.repeat(1_001), 7 as never]) {
    assert.equal(await codeOf(() => lh.firstTime(client, orders, id)), 'INVALID_OPTION')
  }
  await client.query('commit')
  assert.equal(await codeOf(() => lh.firstTime(client, orders, 'm')), 'INVALID_OPTION', 'no transaction')
  assert.equal(await codeOf(() => lh.firstTime(db.pool, orders, 'm')), 'INVALID_OPTION', 'a pool')
  assert.equal(await codeOf(() => lh.firstTime(client, 'orders' as never, 'm')), 'INVALID_OPTION')
  assert.equal(await codeOf(() => messageSource('a\0')), 'INVALID_OPTION')
  assert.equal(await codeOf(() => messageSource('a', { keeps: '1d' } as never)), 'INVALID_OPTION')
})

test('an id must be kept for longer than its queue can deliver it again', async () => {
  const day = 86_400_000
  assert.deepEqual(messageSource('a'), { name: 'a', keepMs: 15 * day })
  assert.deepEqual(messageSource('a', { redeliveredFor: '4d' }), { name: 'a', keepMs: 5 * day })
  assert.deepEqual(messageSource('a', { redeliveredFor: '4d', keep: 4 * day + 1 }).keepMs, 4 * day + 1)
  for (const options of [
    { keep: '14d' },
    { redeliveredFor: '4d', keep: '4d' },
    { redeliveredFor: '4d', keep: '1h' },
  ] as const) {
    assert.equal(await codeOf(() => messageSource('a', options)), 'INVALID_OPTION')
  }
})

test('an id is forgotten after the retention of its own source, and not before', async (t) => {
  const setting = await scene(t)
  const { lh, db } = setting
  const lane = new Lane(db.pool)
  const webhook = messageSource('webhook', { redeliveredFor: '3d' })
  await lh.oncePerMessage(orders, 'm', () => {})
  await lh.oncePerMessage(webhook, 'm', () => {})
  await db.clock.advance('3 days 23 hours')
  assert.equal(await pruneMessages(lane), 0)
  await db.clock.advance('2 hours')
  assert.equal(await pruneMessages(lane), 1)
  assert.deepEqual((await lh.oncePerMessage(webhook, 'm', () => 1)).outcome, 'applied')
  assert.deepEqual((await lh.oncePerMessage(orders, 'm', () => 1)).outcome, 'already_handled')
})

test('a worker prunes all due ids in one turn, in batches', async (t) => {
  const setting = await scene(t)
  const { db } = setting
  await db.pool.query(`insert into leasehold.processed_message
    select 'orders', n::text, now(), now() + (case when n <= 25000 then -1 else 1 end) * interval '1 h'
    from generate_series(1, 25003) n`)
  setting.worker([handle(kind('task'), () => {})])
  await until('only those that are not due are left', async () => (await remembered(setting)) === 3)
})
