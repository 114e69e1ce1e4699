// One UPDATE that names the status it leaves: of all callers, one gets `applied` (decisions/0020).
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import pg from 'pg'
import type { Queryable } from '../../src/db/lane.ts'
import { TransactionConflictError, withTransaction } from '../../src/index.ts'
import { databaseNow, statusTable } from '../../src/tables/index.ts'
import { freshDatabase, type TestDatabase, waitUntilBlocked } from '../support/database.ts'
import { session } from '../support/queue.ts'
import { codeOf } from '../support/worker.ts'
import { createSummaries, summaries, summary } from './summaries.ts'

const LEVELS = ['read committed', 'repeatable read', 'serializable'] as const

async function withRows(t: TestContext, n: number): Promise<TestDatabase> {
  const db = await freshDatabase(t)
  await createSummaries(db, n)
  return db
}

/** A pool whose every statement runs at this level, in a transaction or not. */
function poolAt(t: TestContext, db: TestDatabase, level: string, max: number): pg.Pool {
  const options = `-c default_transaction_isolation=${level.replace(' ', '\\ ')}`
  const pool = new pg.Pool({ connectionString: db.url, max, options })
  t.after(() => pool.end().catch(() => {}))
  pool.on('error', () => {})
  return pool
}

const complete = (db: Queryable, id: number, result = 'text') =>
  summaries.transition(db, id, 'pending', 'completed', { result, completed_at: databaseNow })

test('two workers with the same message: the row is completed once, and the second gets already_handled', async (t) => {
  const db = await withRows(t, 1)
  const answers = await Promise.all([complete(db.pool, 1, 'a'), complete(db.pool, 1, 'b')])
  const winner = answers[0]!.outcome === 'applied' ? 0 : 1
  assert.deepEqual(answers[winner], { outcome: 'applied' })
  assert.deepEqual(answers[1 - winner], { outcome: 'already_handled', status: 'completed' })
  const row = await summary(db, 1)
  assert.deepEqual([row.status, row.result], ['completed', ['a', 'b'][winner]])
  assert.ok(row.completed_at instanceof Date)
})

test('the second waits for the first, and sees what the first has committed', async (t) => {
  const db = await withRows(t, 2)
  const [first, second] = [await session(db), await session(db)]
  for (const [id, end, expected] of [
    [1, 'commit', { outcome: 'already_handled', status: 'completed' }],
    [2, 'rollback', { outcome: 'applied' }],
  ] as const) {
    await first.client.query('begin')
    assert.equal((await complete(first.client, id, 'first')).outcome, 'applied')
    const answer = complete(second.client, id, 'second')
    await waitUntilBlocked(await db.connect(), second.pid)
    await first.client.query(end)
    assert.deepEqual(await answer, expected)
  }
  assert.deepEqual([(await summary(db, 1)).result, (await summary(db, 2)).result], ['first', 'second'])
})

test('a message that arrives before its row commits gets not_found, and can be redelivered', async (t) => {
  const db = await withRows(t, 0)
  const { client } = await session(db)
  await client.query('begin')
  await client.query('insert into summary (id) values (1)')
  assert.deepEqual(await complete(db.pool, 1), { outcome: 'not_found' })
  await client.query('commit')
  assert.deepEqual(await complete(db.pool, 1), { outcome: 'applied' })
})

for (const level of LEVELS) {
  test(`five racers for each of 200 rows, ${level}: one winner each, and no error`, async (t) => {
    const db = await withRows(t, 200)
    const pool = poolAt(t, db, level, 20)
    const set = await pool.query('show transaction_isolation')
    assert.equal(set.rows[0].transaction_isolation, level)
    const wins = new Map<number, string[]>()
    const race = async (id: number, racer: string, within: boolean) => {
      const { outcome } = within
        ? await withTransaction(pool, (tx) => complete(tx, id, racer), { attempts: 100 })
        : await complete(pool, id, racer)
      if (outcome === 'applied') wins.set(id, [...(wins.get(id) ?? []), racer])
      else assert.equal(outcome, 'already_handled')
    }
    const ids = Array.from({ length: 200 }, (_, index) => index + 1)
    // Half of them each alone, half in a transaction of the caller's.
    await Promise.all(ids.flatMap((id) => ['a', 'b', 'c', 'd', 'e'].map((racer) => race(id, racer, id % 2 === 0))))
    const { rows } = await db.pool.query('select id, result, status from summary order by id')
    assert.deepEqual(
      rows,
      ids.map((id) => ({ id, result: wins.get(id)!.join(), status: 'completed' })),
    )
  })
}

test('a conflict inside the caller’s transaction asks to run it again', async (t) => {
  const db = await withRows(t, 1)
  const attempt = withTransaction(
    db.pool,
    async (tx) => {
      await tx.query('select from summary')
      await complete(db.pool, 1, 'faster')
      return complete(tx, 1, 'slower')
    },
    { isolation: 'repeatable read' },
  )
  await assert.rejects(attempt, (error) => error instanceof TransactionConflictError && codeIn(error.cause) === '40001')
  assert.equal((await summary(db, 1)).result, 'faster')
})

test('a statement aborted in a transaction is not repeated outside it', async (t) => {
  const db = await withRows(t, 60)
  const pool = poolAt(t, db, 'repeatable read', 1)
  for (let id = 1; id < 60; id += 2) {
    const both = withTransaction(pool, async (tx) => {
      await tx.query('select from summary')
      await complete(db.pool, id, 'faster')
      await Promise.all([complete(tx, id, 'given up'), complete(tx, id + 1, 'given up')])
    })
    await assert.rejects(both, TransactionConflictError)
    // Another user of the same connection.
    await withTransaction(pool, (tx) => tx.query('select'))
  }
  const { rows } = await db.pool.query(`select count(*)::int from summary where result = 'given up'`)
  assert.equal(rows[0].count, 0)
})

test('of two transactions in a deadlock one gets TransactionConflictError, runs again, and succeeds', async (t) => {
  const db = await withRows(t, 2)
  await db.pool.query('create table witness (who text)')
  const [left, right, observer] = [await session(db), await session(db), await db.connect()]
  let begun = 0
  const both = (client: pg.Client, who: string, ids: readonly number[], meanwhile: () => Promise<unknown>) =>
    withTransaction(
      client,
      async (tx) => {
        begun++
        await tx.query('insert into witness values ($1)', [who])
        const first = await complete(tx, ids[0]!, who)
        await meanwhile()
        return [first.outcome, (await complete(tx, ids[1]!, who)).outcome]
      },
      { attempts: 5 },
    )
  let other: Promise<string[]> | undefined
  const answer = await both(left.client, 'left', [1, 2], async () => {
    if (other !== undefined) return
    other = both(right.client, 'right', [2, 1], async () => {})
    await waitUntilBlocked(observer, right.pid)
  })
  const answers = [answer, await other!].sort()
  assert.deepEqual(answers, [
    ['already_handled', 'already_handled'],
    ['applied', 'applied'],
  ])
  assert.equal(begun, 3)
  const { rows } = await db.pool.query('select count(distinct result)::int as writers from summary')
  assert.equal(rows[0].writers, 1)
})

test('a row that becomes ready again during the lookup is tried again', async (t) => {
  const db = await withRows(t, 1)
  await db.pool.query(`update summary set status = 'error'`)
  let looks = 0
  // Anything with a query method works.
  const db2: Queryable = {
    query: async (config) => {
      if (config.text.startsWith('-- row.find') && ++looks === 1) {
        await db.pool.query(`update summary set status = 'pending'`)
      }
      return db.pool.query(config)
    },
  }
  assert.deepEqual(await complete(db2, 1), { outcome: 'applied' })
  assert.equal(looks, 1)
})

test('a row that no update can change does not get already_handled', async (t) => {
  const db = await withRows(t, 1)
  await db.pool.query(`
    create function forbid() returns trigger language plpgsql as 'begin return null; end';
    create trigger forbid before update on summary for each row execute function forbid()`)
  for (const call of [() => complete(db.pool, 1), () => summaries.claim(db.pool, 1)]) {
    await assert.rejects(call, /row 1 is pending, and yet no update changes it/)
  }
})

test('a plan outlives a change of the column that it reads', async (t) => {
  const db = await withRows(t, 1)
  const { client } = await session(db)
  assert.equal((await complete(client, 1)).outcome, 'applied')
  assert.equal((await complete(client, 1)).outcome, 'already_handled')
  await db.pool.query('alter table summary alter status type varchar(40)')
  assert.deepEqual(await complete(client, 1), { outcome: 'already_handled', status: 'completed' })
})

test('an undeclared arrow, and one that belongs to a claim, are refused', async (t) => {
  const db = await withRows(t, 1)
  assert.equal(
    await codeOf(() => summaries.transition(db.pool, 1, 'completed' as never, 'pending' as never)),
    'INVALID_OPTION',
  )
  assert.equal(
    await codeOf(() => summaries.transition(db.pool, 1, 'toString' as never, 'x' as never)),
    'INVALID_OPTION',
  )
  for (const arrows of [{ pending: ['processing'] }, { processing: ['completed'] }]) {
    assert.throws(() => statusTable('summary', { arrows }), /claim\(\)/)
  }
  assert.equal((await summary(db, 1)).status, 'pending')
})

test('statuses may be an enum, names may need quotes, and the table may be in another schema', async (t) => {
  const db = await freshDatabase(t)
  const incidents = statusTable('Ops.Order', {
    names: { id: 'user', status: 'state' },
    arrows: { open: ['on hold', 'closed'], 'on hold': ['open', 'closed'] },
    columns: ['select'],
    phases: false,
  })
  await db.pool.query(`
    create schema "Ops";
    create type state as enum ('open', 'on hold', 'closed');
    create table "Ops"."Order" ("user" uuid primary key, state state not null default 'open', "select" jsonb);`)
  const id = 'a8098c1a-f86e-11da-bd1a-00112444be1e'
  await db.pool.query('insert into "Ops"."Order" values ($1)', [id])
  assert.deepEqual(await incidents.transition(db.pool, id, 'open', 'on hold', { select: '[1]' }), {
    outcome: 'applied',
  })
  const late = await incidents.transition(db.pool, id, 'open', 'closed')
  assert.deepEqual(late, { outcome: 'already_handled', status: 'on hold' })
  const { rows } = await db.pool.query('select * from "Ops"."Order"')
  assert.deepEqual(rows, [{ user: id, state: 'on hold', select: [1] }])
  assert.equal(await codeOf(() => incidents.claim(db.pool, id)), 'INVALID_OPTION')
  assert.throws(() => incidents.recovery(), { code: 'INVALID_OPTION' })
  assert.match(incidents.sql(), /check \("state" in \('open', 'on hold', 'closed'\)\);\n$/)
})

const HOSTILE = [
  '',
  'a"b',
  'a; drop table summary',
  "a'--",
  'a\0',
  'a b',
  '1a',
  'ä',
  'a'.repeat(64),
  '*',
  '$1',
  'a.b.c',
  null,
]

test('hostile names are refused when they are declared', () => {
  for (const name of HOSTILE as string[]) {
    const refused = { code: 'INVALID_OPTION' }
    assert.throws(() => statusTable(name), refused, String(name))
    assert.throws(() => statusTable('t', { names: { id: name ?? '' } }), refused, String(name))
    assert.throws(() => statusTable('t', { names: { status: name ?? '' } }), refused, String(name))
    assert.throws(() => statusTable('t', { columns: [name] }), refused, String(name))
    assert.throws(() => statusTable('t', { names: { claim_expires_at: name } }), refused, String(name))
  }
  for (const status of ['', "o'clock", 'a\\', 'a\nb', ' a', '-- a', 'a'.repeat(64)]) {
    assert.throws(() => statusTable('t', { arrows: { [status]: ['b'] } }), { code: 'INVALID_OPTION' }, status)
    assert.throws(() => statusTable('t', { phases: { done: status } }), { code: 'INVALID_OPTION' }, status)
  }
  assert.throws(() => statusTable('t', { columns: ['status'] }), /written by the transitions/)
  assert.throws(() => statusTable('t', { phases: { done: 'error' } }), /the same/)
  assert.throws(() => statusTable('t', { names: { retry_at: 'at', sent_at: 'at' } }), /the same/)
  assert.throws(() => statusTable('t', { colums: ['a'] } as never), /did you mean columns/)
})

test('hostile values change nothing but their own column, and an invalid id is refused', async (t) => {
  const db = await withRows(t, 2)
  const result = `'); drop table summary; -- ${'x'.repeat(10_000_000)}`
  assert.equal((await complete(db.pool, 1, result)).outcome, 'applied')
  assert.equal((await summary(db, 1)).result, result)
  assert.equal(await codeOf(() => complete(db.pool, 2, 'a\0b')), '22021')
  for (const id of [null, undefined, Number.NaN, 1.5, {}, [1], '']) {
    assert.equal(await codeOf(() => complete(db.pool, id as never)), 'INVALID_OPTION')
  }
  const set = { 'result" = null, status': 'x' } as never
  assert.equal(await codeOf(() => summaries.transition(db.pool, 2, 'pending', 'completed', set)), 'INVALID_OPTION')
  assert.deepEqual(await complete(db.pool, 10_000_000), { outcome: 'not_found' })
  assert.equal((await summary(db, 2)).status, 'pending')
})

function codeIn(error: unknown): unknown {
  return (error as { code?: unknown }).code
}
