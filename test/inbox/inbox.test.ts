// Events that a broker delivers at least once.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { EventConflictError, Inbox, LockTimeoutError } from '../../src/inbox/index.ts'
import { kind, TransactionConflictError, withTransaction } from '../../src/index.ts'
import { behindProxy } from '../support/behind-proxy.ts'
import { waitUntilBlocked } from '../support/database.ts'
import { failureOf } from '../support/effects.ts'
import { gate } from '../support/gate.ts'
import { session } from '../support/queue.ts'
import { codeOf, count, type Scene, scene } from '../support/worker.ts'

async function withInbox(t: Parameters<typeof scene>[0]): Promise<Scene & { orders: Inbox }> {
  const setting = await scene(t)
  return { ...setting, orders: new Inbox(setting.lh, { source: 'orders' }) }
}

const remembered = ({ db }: Scene) => count(db, 'from leasehold.inbox')
const task = kind<number>('task')

test('an event is new once its transaction has committed, and not before', async (t) => {
  const { db, orders } = await withInbox(t)
  const { client } = await session(db)
  for (const [end, isNew] of [
    ['rollback', true],
    ['commit', true],
    ['commit', false],
  ] as const) {
    await client.query('begin')
    assert.equal(await orders.firstTime(client, 'e1'), isNew)
    assert.equal(await orders.firstTime(client, 'e1'), false, 'twice in one transaction')
    await client.query(end)
  }
})

test('of twenty deliveries at once one is applied, and the others are counted as duplicates', async (t) => {
  const { db, orders } = await withInbox(t)
  await db.pool.query('create table balance (amount int); insert into balance values (0)')
  const answers = await Promise.all(
    Array.from({ length: 20 }, () =>
      orders.once('e1', async (tx) => {
        const { rows } = await tx.query('update balance set amount = amount + 10 returning amount')
        return rows[0].amount as number
      }),
    ),
  )
  const applied = answers.filter((answer) => answer.outcome === 'applied')
  assert.deepEqual(applied, [{ outcome: 'applied', result: 10 }])
  assert.equal(answers.filter(({ outcome }) => outcome === 'already_handled').length, 19)
  assert.deepEqual((await db.pool.query('select amount from balance')).rows, [{ amount: 10 }])
  await orders.once('e1', () => assert.fail()) // Alone, so it is certainly counted.
  const [{ duplicates }] = (await db.pool.query('select duplicates from leasehold.inbox')).rows
  assert.ok(duplicates >= 1 && duplicates <= 20, String(duplicates))
})

test('an event whose effect throws was not handled, and the next delivery handles it', async (t) => {
  const setting = await withInbox(t)
  const { orders, db } = setting
  await db.pool.query('create table paid (n int)')
  const cause = new Error('x')
  const thrown = await failureOf(
    orders.once('e1', async (tx) => {
      await tx.query('insert into paid values (1)')
      throw cause
    }),
  )
  assert.equal(thrown, cause)
  assert.deepEqual([await remembered(setting), await count(db, 'from paid')], [0, 0])
  assert.deepEqual(await orders.once('e1', () => 'now'), { outcome: 'applied', result: 'now' })
})

test('an event becomes one job: both commit together, or neither does', async (t) => {
  const setting = await withInbox(t)
  const { orders, lh, db } = setting
  const into = () => orders.once('e1', (tx) => lh.enqueue(task, 1, { tx }))
  const refused = orders.once('e1', async (tx) => {
    await lh.enqueue(task, 1, { tx })
    throw new Error('the process has second thoughts')
  })
  await assert.rejects(refused)
  assert.deepEqual([await remembered(setting), await count(db, 'from leasehold.job')], [0, 0])
  assert.equal((await into()).outcome, 'applied')
  assert.equal((await into()).outcome, 'already_handled')
  assert.deepEqual([await remembered(setting), await count(db, 'from leasehold.job')], [1, 1])
})

for (const [end, isNew] of [
  ['commits', false],
  ['rolls back', true],
  ['loses its process', true],
] as const) {
  test(`a second delivery waits for the first; when that ${end}, it is ${isNew ? '' : 'not '}new`, async (t) => {
    const { db, orders } = await withInbox(t)
    const [one, two, observer] = [await session(db), await session(db), await db.connect()]
    await one.client.query('begin')
    assert.equal(await orders.firstTime(one.client, 'e1'), true)
    await two.client.query('begin')
    const answer = orders.firstTime(two.client, 'e1')
    await waitUntilBlocked(observer, two.pid)
    if (end === 'loses its process') {
      one.client.on('error', () => {})
      await observer.query('select pg_terminate_backend($1)', [one.pid])
    } else await one.client.query(end === 'commits' ? 'commit' : 'rollback')
    assert.equal(await answer, isNew)
  })
}

test('a second delivery waits for so long and no longer; the session’s own lock_timeout is as before', async (t) => {
  const { db, lh } = await withInbox(t)
  const hurried = new Inbox(lh, { source: 'orders', wait: '1ms' })
  const [one, two] = [await session(db), await session(db)]
  await one.client.query('begin')
  assert.equal(await hurried.firstTime(one.client, 'e1'), true)
  assert.ok((await failureOf(hurried.once('e1', () => assert.fail()))) instanceof LockTimeoutError)
  await two.client.query(`set lock_timeout = '7s'`)
  await two.client.query('begin')
  await hurried.firstTime(two.client, 'e2')
  assert.equal((await two.client.query('show lock_timeout')).rows[0].lock_timeout, '7s')
  assert.ok((await failureOf(hurried.firstTime(two.client, 'e1'))) instanceof LockTimeoutError)
  await two.client.query('rollback')
  await one.client.query('rollback')
  assert.equal((await hurried.once('e1', () => {})).outcome, 'applied')
})

test('duplicates never wait for each other, in any order', async (t) => {
  const { db, orders } = await withInbox(t)
  for (const id of ['a', 'b']) await orders.once(id, () => {})
  const [one, two] = [await session(db), await session(db)]
  for (const { client } of [one, two]) await client.query('begin')
  assert.equal(await orders.firstTime(one.client, 'a'), false)
  assert.equal(await orders.firstTime(two.client, 'b'), false)
  assert.equal(await orders.firstTime(one.client, 'b'), false)
  assert.equal(await orders.firstTime(two.client, 'a'), false)
  for (const { client } of [one, two]) await client.query('commit')
  const { rows } = await db.pool.query('select duplicates from leasehold.inbox order by event_id')
  assert.deepEqual(rows, [{ duplicates: 1 }, { duplicates: 1 }])
})

test('events out of order are each handled once, duplicates between them included', async (t) => {
  const { orders } = await withInbox(t)
  const handled: string[] = []
  for (const id of ['3', '1', '3', '2', '1', '2', '3']) await orders.once(id, () => void handled.push(id))
  assert.deepEqual(handled, ['3', '1', '2'])
})

test('the reply to the commit is lost: the call throws, and the next delivery is already handled', async (t) => {
  const { far, proxy, lh, db } = await behindProxy(t)
  await db.pool.query('create table paid (n int)')
  const orders = new Inbox(far, { source: 'orders' })
  const cut = proxy.cutReplies('commit')
  await assert.rejects(orders.once('e1', (tx) => tx.query('insert into paid values (1)')))
  await cut
  const again = new Inbox(lh, { source: 'orders' })
  assert.equal((await again.once('e1', (tx) => tx.query('insert into paid values (1)'))).outcome, 'already_handled')
  assert.equal(await count(db, 'from paid'), 1)
})

test('an id that a sender reuses with another body is refused, and neither effect is lost', async (t) => {
  const { orders, lh, db } = await withInbox(t)
  await orders.once('e1', (tx) => lh.enqueue(task, 1, { tx }), { body: '{"n":1}' })
  const reused = orders.once('e1', () => assert.fail(), { body: '{"n":2}' })
  const error = await failureOf(reused)
  assert.ok(error instanceof EventConflictError)
  assert.match(error.message, /Event "e1" of orders .* another body/)
  assert.equal(
    (await orders.once('e1', () => assert.fail(), { body: Buffer.from('{"n":1}') })).outcome,
    'already_handled',
  )
  assert.equal((await orders.once('e1', () => assert.fail())).outcome, 'already_handled', 'no body, no comparison')
  const { rows } = await db.pool.query('select duplicates from leasehold.inbox')
  assert.deepEqual(rows, [{ duplicates: 2 }], 'a conflict is no duplicate')
})

test('a rolled-back delivery leaves no body to compare with', async (t) => {
  const { orders } = await withInbox(t)
  await assert.rejects(orders.once('e1', () => Promise.reject(new Error('x')), { body: 'one' }))
  assert.equal((await orders.once('e1', () => {}, { body: 'two' })).outcome, 'applied')
})

test('under REPEATABLE READ a lost race is TransactionConflictError', async (t) => {
  const { db, orders } = await withInbox(t)
  const { client } = await session(db)
  await client.query('begin isolation level repeatable read')
  await client.query('select')
  await orders.once('e1', () => {})
  assert.ok((await failureOf(orders.firstTime(client, 'e1'))) instanceof TransactionConflictError)
  await client.query('rollback')
})

test('two events in a deadlock: Postgres aborts one, and it begins again', async (t) => {
  const { orders } = await withInbox(t)
  const gates = { a: gate(), b: gate() }
  let begun = 0
  const both = (own: 'a' | 'b', other: 'a' | 'b') =>
    orders.once(own, async (tx) => {
      begun++
      gates[own].open()
      await gates[other].opened
      return orders.firstTime(tx, other)
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
  const setting = await withInbox(t)
  const { lh, db, orders } = setting
  const ids = ['m1', 'M1', 'm1 ', "'; drop table leasehold.job; --", '📬', 'x'.repeat(1_000)]
  await withTransaction(db.pool, async (tx) => {
    for (const inbox of [orders, new Inbox(lh, { source: 'refunds' })]) {
      for (const id of ids) assert.equal(await inbox.firstTime(tx, id), true)
    }
  })
  assert.equal(await remembered(setting), 2 * ids.length)
})

test('a transaction of another driver is served through its function', async (t) => {
  const { db, orders } = await withInbox(t)
  await withTransaction(db.pool, async (client) => {
    const tx = async (text: string, values: readonly unknown[]) => (await client.query(text, [...values])).rows
    assert.equal(await orders.firstTime(tx, 'e1', { body: 'x' }), true)
    assert.equal(await orders.firstTime(tx, 'e1', { body: 'x' }), false)
    assert.ok((await failureOf(orders.firstTime(tx, 'e1', { body: 'y' }))) instanceof EventConflictError)
  })
})

test('invalid arguments are refused', async (t) => {
  const { lh, db, orders } = await withInbox(t)
  const { client } = await session(db)
  await client.query('begin')
  for (const id of ['', 'a\0b', '\udfff', 'x'.repeat(1_001), 7 as never]) {
    assert.equal(await codeOf(() => orders.firstTime(client, id)), 'INVALID_OPTION')
    assert.equal(await codeOf(() => orders.once(id, () => {})), 'INVALID_OPTION')
  }
  assert.equal(await codeOf(() => orders.firstTime(client, 'e', { body: {} as never })), 'INVALID_OPTION', 'parsed')
  assert.equal(await codeOf(() => orders.firstTime(client, 'e', { bodi: '' } as never)), 'INVALID_OPTION')
  await client.query('commit')
  assert.equal(await codeOf(() => orders.firstTime(client, 'e')), 'INVALID_OPTION', 'no transaction')
  assert.equal(await codeOf(() => orders.firstTime(db.pool, 'e')), 'INVALID_OPTION', 'a pool')
  assert.equal(await codeOf(() => orders.once('e', undefined as never)), 'INVALID_OPTION', 'no effect')
  for (const [leasehold, options] of [
    [db.pool, { source: 'a' }],
    [lh, undefined],
    [lh, {}],
    [lh, { source: 'a\0' }],
    [lh, { source: 'a', keeps: '1d' }],
    [lh, { source: 'a', wait: 0 }],
  ] as const) {
    assert.equal(await codeOf(() => new Inbox(leasehold as never, options as never)), 'INVALID_OPTION')
  }
})
