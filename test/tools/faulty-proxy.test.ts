import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect } from 'node:net'
import { type TestContext, test } from 'node:test'
import pg from 'pg'
import { type FaultyProxy, startFaultyProxy } from '../../tools/faulty-proxy.ts'
import { freshDatabase, type TestDatabase, waitUntilBlocked } from '../support/database.ts'
import { until } from '../support/until.ts'

const LOST = /ECONNRESET|terminated unexpectedly/

interface Behind extends TestDatabase {
  proxy: FaultyProxy
  /** A client through the proxy. */
  client(): pg.Client
  /** Number of notes in the database, read without the proxy. */
  notes(): Promise<number>
}

async function databaseBehindProxy(t: TestContext): Promise<Behind> {
  const database = await freshDatabase(t)
  const { hostname, port } = new URL(database.url)
  const proxy = await startFaultyProxy({ host: hostname, port: Number(port) })
  t.after(proxy.stop)
  await database.pool.query('create table note (text text)')
  const client = () => {
    const made = new pg.Client(proxy.url(database.url))
    made.on('error', () => {})
    return made
  }
  const notes = async () => {
    const { rows } = await database.pool.query('select count(*)::int as notes from note')
    return rows[0].notes
  }
  return { ...database, proxy, client, notes }
}

/** Whether the promise settles within twenty round trips that bypass the proxy: ample time. */
async function soon(pool: pg.Pool, promise: Promise<unknown>): Promise<'settled' | 'pending'> {
  let state: 'settled' | 'pending' = 'pending'
  const settled = () => {
    state = 'settled'
  }
  promise.then(settled, settled)
  for (let trip = 0; trip < 20; trip++) await pool.query('select 1')
  return state
}

async function backend(client: pg.Client): Promise<number> {
  const { rows } = await client.query('select pg_backend_pid() as pid')
  return rows[0].pid
}

test('the proxy forwards all traffic by default, also large amounts, and counts connections', async (t) => {
  const { proxy, ...behind } = await databaseBehindProxy(t)
  const [one, other] = [behind.client(), behind.client()]
  await Promise.all([one.connect(), other.connect()])
  assert.equal(proxy.connections, 2)
  const long = 'x'.repeat(5_000_000)
  const { rows } = await one.query('select $1 || $1 as twice', [long])
  assert.ok(rows[0].twice === long + long)
  await assert.rejects(other.query('select 1/0'), /division by zero/)
  await Promise.all([one.end(), other.end()])
})

test('cut resets open connections and allows new ones', async (t) => {
  const { proxy, ...behind } = await databaseBehindProxy(t)
  const client = behind.client()
  await client.connect()
  const pid = await backend(client)
  const held = await behind.connect()
  await held.query('select pg_advisory_lock(1)')
  const lost = assert.rejects(client.query('select pg_advisory_lock(1)'), LOST)
  await waitUntilBlocked(held, pid)
  proxy.cut()
  await lost
  const next = behind.client()
  await next.connect()
  assert.notEqual(await backend(next), pid)
  await next.end()
})

test('a statement does not arrive at a frozen server until the thaw', async (t) => {
  const { proxy, pool, ...behind } = await databaseBehindProxy(t)
  const client = behind.client()
  await client.connect()
  await client.query(`insert into note values ('before')`)
  proxy.freeze()
  const held = client.query(`insert into note values ('during')`)
  assert.equal(await soon(pool, held), 'pending')
  assert.equal(await behind.notes(), 1)
  proxy.thaw()
  await held
  assert.equal(await behind.notes(), 2)
  await client.end()
})

test('a statement that the proxy waits for freezes it, and arrives at the thaw, also from a client that has left', async (t) => {
  const { proxy, pool, ...behind } = await databaseBehindProxy(t)
  const [client, other] = [behind.client(), behind.client()]
  await Promise.all([client.connect(), other.connect()])
  const frozen = proxy.freezeAt('held note')
  await client.query(`insert into note values ('before')`)
  const held = client.query(`insert into note values ('held note')`)
  held.catch(() => {})
  await frozen
  const behindIt = other.query(`insert into note values ('another')`)
  assert.equal(await soon(pool, Promise.race([held, behindIt])), 'pending')
  assert.equal(await behind.notes(), 1)
  ;(client as unknown as { connection: { stream: { destroy(): void } } }).connection.stream.destroy()
  proxy.thaw()
  await behindIt
  await until('the held note', async () => (await behind.notes()) === 3)
  void proxy.freezeAt('a last note')
  proxy.thaw()
  await other.query(`insert into note values ('a last note')`)
  await other.end()
})

test('a reply does not leave a frozen proxy until the thaw', async (t) => {
  const { proxy, pool, ...behind } = await databaseBehindProxy(t)
  const client = behind.client()
  await client.connect()
  const pid = await backend(client)
  const other = await behind.connect()
  await other.query('select pg_advisory_lock(1)')
  const held = client.query('select pg_advisory_lock(1)')
  await waitUntilBlocked(other, pid)
  proxy.freeze()
  await other.query('select pg_advisory_unlock(1)')
  assert.equal(await soon(pool, held), 'pending')
  const { rows } = await pool.query(`select granted from pg_locks where locktype = 'advisory' and pid = $1`, [pid])
  assert.deepEqual(rows, [{ granted: true }])
  proxy.thaw()
  await held
  await client.end()
})

test('a frozen proxy accepts connections without a reply, and notices at the thaw those that left', async (t) => {
  const { proxy, pool, ...behind } = await databaseBehindProxy(t)
  proxy.freeze()
  const impatient = connect(proxy.port, '127.0.0.1')
  await once(impatient, 'connect')
  impatient.destroy()
  await once(impatient, 'close')

  const client = behind.client()
  const connecting = client.connect()
  assert.equal(await soon(pool, connecting), 'pending')
  assert.equal(proxy.connections, 2)
  proxy.thaw()
  await connecting
  while (proxy.connections > 1) await client.query('select 1')
  await client.end()
})

test('frozen connections can be cut', async (t) => {
  const { proxy, ...behind } = await databaseBehindProxy(t)
  const client = behind.client()
  await client.connect()
  proxy.freeze()
  const lost = assert.rejects(client.query('select 1'), LOST)
  proxy.cut()
  await lost
})

test('delayed replies stay in order, also after the delay ends', async (t) => {
  const { proxy, pool, ...behind } = await databaseBehindProxy(t)
  const client = behind.client()
  await client.connect()
  proxy.delayReplies(60_000)
  const delayed = client.query('select 1 as one')
  await until('the reply is delayed', () => proxy.delayed > 0)
  assert.equal(await soon(pool, delayed), 'pending')
  proxy.delayReplies(0)
  const other = behind.client()
  await other.connect()
  // Delayed data stays delayed, and nothing of its connection overtakes it.
  const next = client.query('select 2 as two')
  assert.equal(await soon(pool, next), 'pending')
  assert.deepEqual((await other.query('select 3 as three')).rows, [{ three: 3 }])
  proxy.cut()
  await assert.rejects(delayed, LOST)
  await assert.rejects(next)
  proxy.delayReplies(1)
  const last = behind.client()
  await last.connect()
  const long = 'x'.repeat(1_000_000)
  const { rows } = await last.query('select $1 || $1 as twice', [long])
  assert.ok(rows[0].twice === long + long)
  await Promise.all([other.end().catch(() => {}), last.end()])
})

test('a refusing proxy lets no new connection in and keeps the open ones', async (t) => {
  const { proxy, ...behind } = await databaseBehindProxy(t)
  const inside = behind.client()
  await inside.connect()
  proxy.refuse()
  await assert.rejects(behind.client().connect(), LOST)
  await inside.query('select 1')
  proxy.accept()
  const late = behind.client()
  await late.connect()
  await Promise.all([inside.end(), late.end()])
})

test('a commit whose reply was cut is committed', async (t) => {
  const { proxy, ...behind } = await databaseBehindProxy(t)
  const client = behind.client()
  await client.connect()
  const happened = proxy.cutReplies('COMMIT')
  await client.query('BEGIN')
  proxy.cutReplies('BEGIN') // Too late for the one that has its reply.
  await client.query(`insert into note values ('kept')`)
  assert.equal(await behind.notes(), 0)
  await assert.rejects(client.query('COMMIT'), LOST)
  await happened
  assert.equal(await behind.notes(), 1)
})

test('a prepared statement is recognised by its name after it was parsed', async (t) => {
  const { proxy, ...behind } = await databaseBehindProxy(t)
  const insert = { name: 'leasehold/note.add', text: `-- note.add\ninsert into note values ($1)` }
  const [one, other] = [behind.client(), behind.client()]
  await Promise.all([one.connect(), other.connect()])
  for (const client of [one, other]) await client.query({ ...insert, values: ['parsed'] })

  const happened = proxy.cutReplies(/note\.(add|remove)/g, 2)
  for (const client of [one, other]) {
    await client.query('select 1')
    await assert.rejects(client.query({ ...insert, values: ['bound'] }), LOST)
  }
  await happened
  assert.equal(await behind.notes(), 4)
  const third = behind.client()
  await third.connect()
  await third.query({ ...insert, values: ['not cut any more'] })
  await third.end()
})

test('a reply is cut at its end, not at its first bytes', async (t) => {
  const { proxy, ...behind } = await databaseBehindProxy(t)
  const client = behind.client()
  await client.connect()
  const happened = proxy.cutReplies('-- long')
  // The server sends rows as they come, long before it commits.
  const long = `-- long
    with added as (insert into note values ('kept')) select repeat('x', 1000) from generate_series(1, 10000)`
  await assert.rejects(client.query(long), LOST)
  await happened
  assert.equal(await behind.notes(), 1)
})

test('a fault outlives a connection that ends without an answer', async (t) => {
  const { proxy, pool, ...behind } = await databaseBehindProxy(t)
  const client = behind.client()
  await client.connect()
  const pid = await backend(client)
  const other = await behind.connect()
  await other.query('begin; lock table note')
  const happened = proxy.cutReplies('insert into note')
  const lost = assert.rejects(client.query(`insert into note values ('never')`), LOST)
  await waitUntilBlocked(other, pid)
  proxy.cut()
  await lost
  await pool.query('select pg_terminate_backend($1)', [pid])
  await other.query('commit')

  const next = behind.client()
  await next.connect()
  await assert.rejects(next.query(`insert into note values ('kept')`), LOST)
  await happened
  assert.equal(await behind.notes(), 1)
})
