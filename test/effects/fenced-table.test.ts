// A store that keeps the highest generation it has seen, in a database without Leasehold.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { QueryArrayConfig, QueryArrayResult } from 'pg'
import { TransactionConflictError } from '../../src/index.ts'
import { fencedTable } from '../../src/tables/index.ts'
import { freshDatabase, type TestDatabase, waitUntilBlocked } from '../support/database.ts'
import { failureOf } from '../support/effects.ts'
import { session } from '../support/queue.ts'
import { codeOf } from '../support/worker.ts'

const receipt = fencedTable('receipt', { id: 'job_id', columns: ['amount', 'Note'] })

async function prepared(t: Parameters<typeof freshDatabase>[0]): Promise<TestDatabase> {
  const db = await freshDatabase(t)
  await db.pool.query(
    'drop schema leasehold cascade; create table receipt (job_id bigint primary key, amount int, "Note" jsonb)',
  )
  await db.pool.query(receipt.sql())
  await db.pool.query('insert into receipt values (1), (2)')
  return db
}

async function row({ pool }: TestDatabase, id: number): Promise<unknown> {
  return (await pool.query('select amount, "Note" as note, generation::int from receipt where job_id = $1', [id]))
    .rows[0]
}

test('the newest generation wins, in any order of arrival', async (t) => {
  const db = await prepared(t)
  assert.equal(await receipt.write(db.pool, '1', 2, { amount: 20, Note: { by: 2 } }), 'applied')
  assert.equal(await receipt.write(db.pool, '1', 1, { amount: 10 }), 'stale')
  assert.deepEqual(await row(db, 1), { amount: 20, note: { by: 2 }, generation: 2 })
  assert.equal(await receipt.write(db.pool, 1, 2, { amount: 21 }), 'applied', 'the same attempt may go on')
  assert.equal(await receipt.write(db.pool, 1, 3, {}), 'applied', 'only to shut out older ones')
  assert.equal(await receipt.write(db.pool, 1, 2, { amount: 22 }), 'stale')
  assert.deepEqual(await row(db, 1), { amount: 21, note: { by: 2 }, generation: 3 })
  assert.deepEqual(await row(db, 2), { amount: null, note: null, generation: null }, 'no other row is touched')
  assert.equal(await receipt.write(db.pool, 3, 1, { amount: 1 }), 'not_found')
})

test('a stale write that waited for a newer one is refused', async (t) => {
  const db = await prepared(t)
  const [fresh, stale] = [await session(db), await session(db)]
  await fresh.client.query('begin')
  assert.equal(await receipt.write(fresh.client, 1, 2, { amount: 20 }), 'applied')
  const late = receipt.write(stale.client, 1, 1, { amount: 10 })
  await waitUntilBlocked(await db.connect(), stale.pid)
  await fresh.client.query('commit')
  assert.equal(await late, 'stale')
  assert.deepEqual(await row(db, 1), { amount: 20, note: null, generation: 2 })
})

test('a row that is deleted while the write waits for it is not found', async (t) => {
  const db = await prepared(t)
  const [other, writer] = [await session(db), await session(db)]
  await other.client.query('begin; delete from receipt where job_id = 1')
  const late = receipt.write(writer.client, 1, 1, { amount: 10 })
  await waitUntilBlocked(await db.connect(), writer.pid)
  await other.client.query('commit')
  assert.equal(await late, 'not_found')
})

test('a row inserted between the write and its check is written', async (t) => {
  const db = await prepared(t)
  const texts: string[] = []
  const query = async (config: QueryArrayConfig): Promise<QueryArrayResult> => {
    texts.push(config.text.split('\n')[0]!)
    const answer = await db.pool.query(config)
    if (texts.length === 1) await db.pool.query('insert into receipt values (3)')
    return answer
  }
  assert.equal(await receipt.write({ query }, 3, 1, { amount: 10 }), 'applied')
  assert.deepEqual(texts, ['-- fenced.write', '-- fenced.find', '-- fenced.write'])
  assert.deepEqual(await row(db, 3), { amount: 10, note: null, generation: 1 })
})

test('an applied write is one statement; a client without rowCount is refused', async (t) => {
  const db = await prepared(t)
  const texts: string[] = []
  const query = async (config: QueryArrayConfig): Promise<QueryArrayResult> => {
    texts.push(config.text)
    return db.pool.query(config)
  }
  assert.equal(await receipt.write({ query }, 1, 1, { amount: 10 }), 'applied')
  assert.equal(texts.length, 1)
  const silent = { query: async (config: QueryArrayConfig) => ({ ...(await query(config)), rowCount: null }) }
  assert.equal(await codeOf(() => receipt.write(silent as never, 1, 1, { amount: 10 })), 'INVALID_OPTION')
})

test('under REPEATABLE READ a write that was overtaken is TransactionConflictError', async (t) => {
  const db = await prepared(t)
  const { client } = await session(db)
  await client.query('begin isolation level repeatable read')
  await client.query('select')
  await receipt.write(db.pool, 1, 2, { amount: 20 })
  assert.ok((await failureOf(receipt.write(client, 1, 1, { amount: 10 }))) instanceof TransactionConflictError)
})

test('names are quoted: capitals, reserved words and another schema', async (t) => {
  const db = await prepared(t)
  await db.pool.query('create schema "Billing"; create table "Billing"."order" ("user" text primary key, "select" int)')
  const order = fencedTable('Billing.order', { id: 'user', generation: 'Generation', columns: ['select'] })
  assert.equal(order.sql(), 'alter table "Billing"."order" add column if not exists "Generation" bigint;')
  await db.pool.query(order.sql())
  await db.pool.query(`insert into "Billing"."order" values ('ada')`)
  assert.equal(await order.write(db.pool, 'ada', 1, { select: 7 }), 'applied')
})

test('an invalid name or an unlisted column reaches no statement', async (t) => {
  const db = await prepared(t)
  const columns = ['amount']
  const hostile = ['', '1a', 'a b', 'a"b', 'a;--', 'ä', 'x'.repeat(64), 'a\0', '{id}', undefined, 7] as string[]
  for (const name of hostile) {
    assert.equal(await codeOf(() => fencedTable(name, { id: 'id', columns })), 'INVALID_OPTION')
    assert.equal(await codeOf(() => fencedTable('t', { id: name, columns })), 'INVALID_OPTION')
    assert.equal(await codeOf(() => fencedTable('t', { id: 'id', columns: [name] })), 'INVALID_OPTION')
    assert.equal(await codeOf(() => receipt.write(db.pool, 1, 1, { [name]: 1 })), 'INVALID_OPTION')
  }
  assert.equal(await codeOf(() => fencedTable('a.b.c', { id: 'id', columns })), 'INVALID_OPTION')
  assert.equal(await codeOf(() => fencedTable('t', { id: 'id', columns: ['id'] })), 'INVALID_OPTION')
  assert.equal(await codeOf(() => fencedTable('t', { id: 'id', columns: ['generation'] })), 'INVALID_OPTION')
  assert.equal(await codeOf(() => fencedTable('t', { id: 'id', generation: 'id', columns })), 'INVALID_OPTION')
  assert.equal(await codeOf(() => fencedTable('t', { id: 'id', columns, key: 'x' } as never)), 'INVALID_OPTION')
  assert.equal(await codeOf(() => fencedTable('t', undefined as never)), 'INVALID_OPTION')
  assert.equal(await codeOf(() => receipt.write(db.pool, 1, 1, { amount: undefined })), 'INVALID_OPTION')
  assert.equal(await codeOf(() => receipt.write(db.pool, 1, 1.5, { amount: 1 })), 'INVALID_OPTION')
  // @ts-expect-error: not one of the columns
  assert.equal(await codeOf(() => receipt.write(db.pool, 1, 1, { generation: 9 })), 'INVALID_OPTION')
  assert.deepEqual(await row(db, 1), { amount: null, note: null, generation: null })
})

test('a write that a trigger suppresses is not called stale', async (t) => {
  const db = await prepared(t)
  await db.pool.query(`
    create function nothing() returns trigger language plpgsql as 'begin return null; end';
    create trigger suppress before update on receipt for each row execute function nothing()`)
  await assert.rejects(receipt.write(db.pool, 1, 1, { amount: 1 }), /row 1 .* does a policy or a trigger forbid it\?/)
  await assert.rejects(receipt.write(db.pool, undefined as never, 1, {}), { option: 'id' })
})

test('the column can be added again', async (t) => {
  const db = await prepared(t)
  await db.pool.query(receipt.sql())
})
