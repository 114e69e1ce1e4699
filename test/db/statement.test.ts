// Prepared statements of a session, which does not ask for their columns twice.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import pg from 'pg'
import { Lane } from '../../src/db/lane.ts'
import { Session } from '../../src/db/session.ts'
import { suiteDatabase } from '../support/database.ts'

const db = await suiteDatabase()

function scene(t: TestContext, options: pg.ClientConfig = {}) {
  const session = new Session({ connection: { connectionString: db.url, ...options }, deadlineMs: 10_000 })
  t.after(() => session.close())
  return { session, lane: new Lane(session) }
}

/** What is asked of the server, by the names of the driver's methods. */
function messages(t: TestContext): string[] {
  const sent: string[] = []
  const { prototype } = pg.Connection as unknown as { prototype: Record<string, (...args: unknown[]) => unknown> }
  for (const name of ['parse', 'bind', 'describe', 'execute']) {
    const original = prototype[name]!
    t.mock.method(prototype, name, function (this: unknown, ...args: unknown[]) {
      sent.push(name)
      return original.apply(this, args)
    })
  }
  return sent
}

test('a statement is parsed and described once a connection', async (t) => {
  const { session, lane } = scene(t)
  const sent = messages(t)
  const ask = async () => (await lane.run<'n'>('-- a.number\nselect $1::int as n', [1])).map(({ n }) => n)
  assert.deepEqual(await ask(), ['1'])
  assert.deepEqual(sent.splice(0), ['parse', 'bind', 'describe', 'execute'])
  assert.deepEqual(await ask(), ['1'])
  assert.deepEqual(sent.splice(0), ['bind', 'execute'])
  await session.close()
  assert.deepEqual(await ask(), ['1'])
  assert.deepEqual(sent.splice(0), ['parse', 'bind', 'describe', 'execute'])
})

test('rows by name, also of none, of two, and of a statement that returns nothing at all', async (t) => {
  const { lane } = scene(t)
  const rows = async (n: number) =>
    (
      await lane.run<'n' | 'square'>('-- a.series\nselect n, n * n as square from generate_series(1, $1::int) n', [n])
    ).map(({ n, square }) => [n, square])
  for (const _ of [1, 2]) {
    assert.deepEqual(await rows(0), [])
    assert.deepEqual(await rows(2), [
      ['1', '1'],
      ['2', '4'],
    ])
    assert.deepEqual(await lane.run('-- a.delete\ndelete from leasehold.job where id = $1', ['1']), [])
  }
})

test('parameters are sent as the driver sends them: null, text, numbers, lists, bytes', async (t) => {
  const { lane } = scene(t)
  const statement = '-- a.mirror\nselect $1::text as a, $2::text as b, $3::float8 as c, $4::text[] as d, $5::bytea as e'
  const hostile = `"\\{},'; drop table x; --`
  for (const _ of [1, 2]) {
    const [row] = await lane.run<'a' | 'b' | 'c' | 'd' | 'e'>(statement, [
      null,
      'ä 🙂',
      0.1,
      [hostile, null, ''],
      Buffer.from([0, 255]),
    ])
    const { rows } = await db.pool.query('select $1::text[] as d', [[hostile, null, '']])
    assert.deepEqual([row!.a, row!.b, row!.c, row!.e], [null, 'ä 🙂', '0.1', '\\x00ff'])
    assert.deepEqual((await db.pool.query('select $1::text[] as d', [row!.d])).rows, rows)
  }
})

test('after a refused execution the connection and its statements go on', async (t) => {
  const { lane } = scene(t)
  const divide = (by: number) => lane.run<'n'>('-- a.division\nselect 6 / $1::int as n', [by])
  await assert.rejects(divide(0), { code: '22012' })
  assert.equal((await divide(3))[0]!.n, '2')
  await assert.rejects(divide(0), { code: '22012' })
  assert.equal((await divide(2))[0]!.n, '3')
  await assert.rejects(lane.run('-- a.mistake\nselect from from', []), { code: '42601' })
  assert.equal((await divide(1))[0]!.n, '6')
})

test('a migration that changes the columns of a prepared statement costs one failure', async (t) => {
  const { lane } = scene(t)
  const read = async () =>
    (await lane.run<'one' | 'two'>('-- a.star\nselect * from changing', [])).map((row) => row.two)
  await db.pool.query('create table changing (one int); insert into changing values (1)')
  assert.deepEqual(await read(), [undefined])
  await db.pool.query('alter table changing add two int default 2')
  await assert.rejects(read(), { code: '0A000' })
  assert.deepEqual(await read(), ['2'])
})

test("the user's own query_timeout and pipeline do no harm", async (t) => {
  const { lane } = scene(t, { query_timeout: 5_000, pipeline: true } as pg.ClientConfig)
  for (const _ of [1, 2]) assert.equal((await lane.run<'n'>('-- a.number\nselect $1::int as n', [7]))[0]!.n, '7')
})
