// Databases for tests, cloned from the migrated template that tools/test.ts prepares.
import { after, type TestContext } from 'node:test'
import pg from 'pg'
import { withTransaction } from '../../src/db/transaction.ts'
import { until } from './until.ts'

export interface TestClock {
  /** `'31s'`, `'2 hours'`: any interval PostgreSQL understands. */
  advance(duration: string): Promise<void>
  set(timestamp: Date | string): Promise<void>
  reset(): Promise<void>
  /** Time stands still from now on. */
  stopAt(at: Date): Promise<void>
}

export interface TestDatabase {
  pool: pg.Pool
  url: string
  /** One more session, with a backend of its own. */
  connect(): Promise<pg.Client>
  /** Moves `leasehold.clock()` for every session of this database. */
  clock: TestClock
}

/** A database of its own for one test. */
export async function freshDatabase(t: TestContext): Promise<TestDatabase> {
  const { database, close } = await cloneTemplate()
  t.after(close)
  return database
}

/**
 * A database that the tests of one file share: `const { pool } = await suiteDatabase()` at the top of the file.
 * Node runs the hook once all tests registered so far have ended, so do not await a test at the top level.
 */
export async function suiteDatabase(): Promise<TestDatabase> {
  const { database, close } = await cloneTemplate()
  after(close)
  return database
}

let clones = 0

async function cloneTemplate(): Promise<{ database: TestDatabase; close(): Promise<void> }> {
  const adminUrl = fromRunner('LEASEHOLD_TEST_URL')
  const template = fromRunner('LEASEHOLD_TEST_TEMPLATE')
  // The runner drops databases that begin with the template's name, should this process die.
  const name = `${template}_${process.pid}_${++clones}`
  await asAdmin(adminUrl, async (admin) => {
    const { rows } = await admin.query(`select current_setting('server_version_num')::int >= 150000 as has_strategy`)
    // Copying files is faster than logging every page of them, and was the only way before 15.
    await admin.query(
      `create database ${name} template ${template} ${rows[0].has_strategy ? 'strategy file_copy' : ''}`,
    )
  })

  const url = new URL(adminUrl)
  url.pathname = name
  const pool = new pg.Pool({ connectionString: url.href })
  const sessions: pg.Client[] = []
  pool.on('error', ignoreLostSession)
  pool.on('connect', (client) => client.on('error', ignoreLostSession))
  const connect = async () => {
    const client = new pg.Client(url.href)
    client.on('error', ignoreLostSession)
    sessions.push(client)
    await client.connect()
    return client
  }
  const close = async () => {
    // Dropped first: that also ends sessions which a failed test left waiting for a lock, and which would never close.
    await asAdmin(adminUrl, (admin) => admin.query(`drop database ${name} with (force)`))
    await Promise.all(sessions.map((client) => client.end()))
    // Not awaited: it would wait for clients that a failed test never released. It rejects if the test ended the pool.
    pool.end().catch(() => {})
  }
  return { database: { pool, url: url.href, connect, clock: testClock(pool) }, close }
}

/** Dropping a database ends its sessions. A query in flight still rejects, so no failure is hidden. */
function ignoreLostSession(): void {}

function fromRunner(name: string): string {
  const value = process.env[name]
  if (!value) throw new Error(`${name} is not set. Run tests with: npx tsx tools/test.ts [part of a path …]`)
  return value
}

async function asAdmin(url: string, work: (admin: pg.Client) => Promise<unknown>): Promise<void> {
  const admin = new pg.Client(url)
  await admin.connect()
  try {
    await work(admin)
  } finally {
    await admin.end()
  }
}

// Only the first use replaces the function, so tests that leave time alone run against the one that ships.
const MOVABLE_CLOCK = `
  create schema leasehold_test;
  create table leasehold_test.clock (shift interval not null);
  insert into leasehold_test.clock values ('0');
  grant usage on schema leasehold_test to public;
  grant select on leasehold_test.clock to public;
  create or replace function leasehold.clock() returns timestamptz language sql stable
    as $$ select pg_catalog.statement_timestamp() + (select shift from leasehold_test.clock) $$`

function testClock(pool: pg.Pool): TestClock {
  let installed: Promise<unknown> | undefined
  const shift = async (expression: string, values: unknown[] = []) => {
    installed ??= pool.query(MOVABLE_CLOCK)
    await installed
    await withTransaction(pool, async (tx) => {
      await tx.query(`update leasehold_test.clock set shift = ${expression}`, values)
      // Time passes, and sweeps go on meanwhile: a gap between them would mean an outage.
      await tx.query('update leasehold.sweep set looked_at = leasehold.clock() where looked_at is not null')
    })
  }
  return {
    advance: (duration) => shift('shift + $1::interval', [duration]),
    set: (timestamp) => shift('$1::timestamptz - pg_catalog.statement_timestamp()', [timestamp]),
    reset: () => shift(`'0'`),
    stopAt: async (at) => {
      await pool.query(`create or replace function leasehold.clock() returns timestamptz language sql stable
        as $$ select timestamptz '${at.toISOString()}' $$`)
    },
  }
}

/** Resolves once the backend waits for a lock that another one holds: forces an interleaving without sleeping. */
export async function waitUntilBlocked(observer: pg.Client, pid: number): Promise<void> {
  await until(`backend ${pid} is blocked`, async () => {
    const { rows } = await observer.query(
      'select cardinality(pg_blocking_pids(pid)) > 0 as blocked from pg_stat_activity where pid = $1',
      [pid],
    )
    if (!rows[0]) throw new Error(`Backend ${pid} is gone, so it will never be blocked.`)
    return rows[0].blocked as boolean
  })
}

/** A database of its own in which generations count claims, 1, 2, 3, rather than milliseconds: easier to compare. */
export async function countingDatabase(t: TestContext): Promise<TestDatabase> {
  const db = await freshDatabase(t)
  await countGenerations(db)
  return db
}

export async function countGenerations({ pool }: Pick<TestDatabase, 'pool'>): Promise<void> {
  await pool.query('create or replace function leasehold.generation_floor() returns bigint language sql return 0')
}
