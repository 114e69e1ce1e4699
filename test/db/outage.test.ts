// Outages are retried; other errors reach the caller. So each case is tested with the real error.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import pg from 'pg'
import { DeadlineError, SchemaError } from '../../src/core/errors.ts'
import { isOutage, refusesAll } from '../../src/db/outage.ts'
import { startFaultyProxy } from '../../tools/faulty-proxy.ts'
import { startPgBouncer } from '../../tools/pgbouncer.ts'
import { suiteDatabase, waitUntilBlocked } from '../support/database.ts'
import { failureOf } from '../support/effects.ts'
import { needsPgBouncer } from '../support/optional-program.ts'

const withPgBouncer = await needsPgBouncer()

const db = await suiteDatabase()

/** A client of its own; its connection losses are ignored. */
async function connected(options: pg.ClientConfig = {}): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: db.url, ...options })
  client.on('error', () => {})
  await client.connect()
  return client
}

function refused(code: string): pg.DatabaseError {
  return Object.assign(new pg.DatabaseError('as the server says', 0, 'error'), { code })
}

test('a connection ended by us or by the server is an outage', async () => {
  const client = await connected()
  const { rows } = await client.query('select pg_backend_pid() as pid')
  const lost = new Promise((resolve) => client.once('end', resolve))
  await db.pool.query('select pg_terminate_backend($1)', [rows[0].pid])
  await lost
  const later = await failureOf(client.query('select 1'))
  assert.match(later.message, /^Client has encountered a connection error/)
  assert.ok(isOutage(later))
  const own = await connected()
  await own.end()
  const closed = await failureOf(own.query('select 1'))
  assert.match(closed.message, /^Client was closed/)
  assert.ok(isOutage(closed))
})

test('a session ended during a statement is an outage', async () => {
  const holder = await connected()
  await holder.query('select pg_advisory_lock(7)')
  const client = await connected()
  const { rows } = await client.query('select pg_backend_pid() as pid')
  const ended = failureOf(client.query('select pg_advisory_lock(7)'))
  await waitUntilBlocked(holder, rows[0].pid)
  await db.pool.query('select pg_terminate_backend($1)', [rows[0].pid])
  const error = await ended
  assert.equal(error.code, '57P01')
  assert.ok(isOutage(error))
  await holder.end()
})

test('a pooler that loses its server during a statement is an outage', withPgBouncer, async (t) => {
  const { hostname: host, port } = new URL(db.url)
  const proxy = await startFaultyProxy({ host, port: Number(port) })
  t.after(() => proxy.stop())
  const bouncer = await startPgBouncer({ url: proxy.url(db.url) })
  t.after(() => bouncer.stop())
  const client = await connected({ connectionString: bouncer.url })
  const cut = proxy.cutReplies('pg_current_xact_id')
  const error = await failureOf(client.query('select pg_current_xact_id()'))
  await cut
  assert.deepEqual([error.code, error.severity], ['08P01', 'FATAL'], error.message)
  assert.ok(isOutage(error))
})

test('a protocol violation reported by Postgres itself is not an outage', async () => {
  const client = await connected()
  const error = await failureOf(client.query('select $1::text, $2::text', ['one']))
  assert.deepEqual([error.code, error.severity], ['08P01', 'ERROR'], error.message)
  assert.ok(!isOutage(error))
  await client.end()
})

test('an unreachable server and a missed deadline are outages', async () => {
  const nobody = await failureOf(new pg.Client({ host: '127.0.0.1', port: 1 }).connect())
  assert.equal(nobody.code, 'ECONNREFUSED')
  assert.ok(isOutage(nobody))

  const pool = new pg.Pool({ connectionString: db.url, max: 1, connectionTimeoutMillis: 1 })
  pool.on('error', () => {})
  const late = await failureOf(Promise.all([pool.query('select 1'), pool.query('select 1')]))
  assert.match(late.message, /timeout/)
  assert.ok(isOutage(late), late.message)
  await pool.end()

  const holder = await connected()
  await holder.query('select pg_advisory_lock(9)')
  const client = await connected({ query_timeout: 1 })
  const unanswered = await failureOf(client.query('select pg_advisory_lock(9)'))
  assert.match(unanswered.message, /^Query read timeout/)
  assert.ok(isOutage(unanswered))
  await holder.end()
  await client.end()
  assert.ok(isOutage(new DeadlineError('A statement', 1)))
})

test('a server that became read-only after a promotion is an outage', async () => {
  const client = await connected()
  await client.query('set default_transaction_read_only = on')
  const error = await failureOf(client.query('delete from leasehold.effect'))
  assert.equal(error.code, '25006')
  assert.ok(isOutage(error))
  await client.end()
})

test('outages of the server and the socket are recognised by code', () => {
  for (const code of ['57P01', '57P02', '57P03', '57P05', '08000', '08003', '08006', '53300', '25006']) {
    assert.ok(isOutage(refused(code)), code)
  }
  for (const code of ['ECONNRESET', 'ECONNREFUSED', 'EPIPE', 'ETIMEDOUT', 'ENOTFOUND', 'EAI_AGAIN', 'EHOSTUNREACH']) {
    assert.ok(isOutage(Object.assign(new Error(code), { code })), code)
  }
})

test('outages of the driver have no code and are recognised by message', () => {
  for (const message of [
    'Connection terminated',
    'Connection terminated unexpectedly',
    'Connection terminated due to connection timeout',
    'timeout expired',
    'timeout exceeded when trying to connect',
    'Query read timeout',
    'Client has encountered a connection error and is not queryable',
    'Client was closed and is not queryable',
  ]) {
    assert.ok(isOutage(new Error(message)), message)
  }
})

test('a refusal is not an outage, nor is an error from another source', async () => {
  for (const text of ['select 1 / 0', 'select from nowhere', 'insert into leasehold.duty (name) values (null)']) {
    assert.equal(isOutage(await failureOf(db.pool.query(text))), false, text)
  }
  for (const code of ['40001', '40P01', '57014', '53200', '25P02', '55P03', '42501', '08P01', 'ERR_INVALID_ARG_TYPE']) {
    assert.equal(isOutage(refused(code)), false, code)
  }
  const connectionLost = Object.assign(new Error('Connection terminated'), { code: '23505' })
  for (const other of [new Error('the connection terminated'), connectionLost, undefined, null, 'ECONNRESET', {}]) {
    assert.equal(isOutage(other), false)
  }
})

test('a changed password, a missing database or table, and a missing privilege fail for every row', async () => {
  const url = new URL(db.url)
  url.pathname = '/nowhere'
  const nowhere = new pg.Pool({ connectionString: url.href })
  const ended = new pg.Pool({ connectionString: db.url })
  await ended.end()
  for (const failure of [
    () => nowhere.query('select 1'),
    () => ended.query('select 1'),
    () => db.pool.query('select * from nothing'),
    () => db.pool.query('select no_such_column from leasehold.effect'),
    () => db.pool.query('select no_such_function()'),
  ]) {
    const error = await failureOf(failure())
    assert.ok(refusesAll(error), `${error.code} ${error.message}`)
    assert.ok(!isOutage(error), `a worker is to hear of it: ${error.message}`)
  }
  await nowhere.end()
  for (const code of ['28P01', '28000', '3F000', '42501', '08P01']) assert.ok(refusesAll(refused(code)), code)
  assert.ok(refusesAll(new SchemaError('not migrated')))
  for (const code of ['22P02', '23505', '40001', '42601', '57014', 'P0001', 'ENOENT']) {
    assert.ok(!refusesAll(refused(code)), code)
  }
  assert.ok(!refusesAll('28P01'))
})

test('a row security error concerns only its row', async () => {
  await db.pool.query(`create role tenant; create table owned (id integer);
    grant insert on owned to tenant; alter table owned enable row level security;
    create policy ours on owned for insert with check (id = 1)`)
  const client = await connected()
  await client.query('set role tenant')
  const error = await failureOf(client.query('insert into owned values (2)'))
  assert.deepEqual([error.code, refusesAll(error)], ['42501', false])
  const unread = await failureOf(client.query('select * from owned'))
  assert.deepEqual([unread.code, refusesAll(unread)], ['42501', true])
  await client.query('reset role')
  await client.query('drop owned by tenant; drop role tenant')
  await client.end()
})
