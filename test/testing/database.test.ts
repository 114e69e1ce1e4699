// leasehold/testing: a fresh database for a test.
import assert from 'node:assert/strict'
import { after, type TestContext, test } from 'node:test'
import pg from 'pg'
import { handle, InvalidOptionError, kind } from '../../src/index.ts'
import { type TestDatabaseOptions, testDatabase } from '../../src/testing/index.ts'
import { freshDatabase } from '../support/database.ts'

const server = process.env.LEASEHOLD_TEST_URL!
const bill = kind<number>('bill', {})

async function opened(t: TestContext, options: TestDatabaseOptions = {}) {
  const db = await testDatabase({ server, ...options })
  t.after(() => db.close())
  return db
}

async function asAdmin<Result>(work: (admin: pg.Client) => Promise<Result>): Promise<Result> {
  const admin = new pg.Client(server)
  await admin.connect()
  try {
    return await work(admin)
  } finally {
    await admin.end()
  }
}

async function exists(url: string): Promise<boolean> {
  const name = new URL(url).pathname.slice(1)
  return asAdmin(
    async (admin) => (await admin.query('select from pg_database where datname = $1', [name])).rowCount === 1,
  )
}

function templates(): Promise<string[]> {
  return asAdmin(async (admin) => {
    const { rows } = await admin.query(`select datname from pg_database where datname ~ '^leasehold_template_'`)
    return rows.map(({ datname }) => datname)
  })
}

// A server of yours keeps no templates of these tests.
const before = await templates()
after(async () => {
  for (const name of await templates()) {
    if (!before.includes(name)) await asAdmin((admin) => admin.query(`drop database ${name}`))
  }
})

test('databases made at the same moment are migrated and know nothing of each other', async (t) => {
  const all = await Promise.all([1, 2, 3].map(() => opened(t)))
  for (const [index, { leasehold, clock }] of all.entries()) {
    await leasehold.enqueue(bill, index, { delay: '1d' })
    const { completed } = await clock.drain([handle(bill, ({ input }) => assert.equal(input, index))])
    assert.equal(completed, 1)
  }
  assert.equal(new Set(all.map(({ url }) => url)).size, 3)
})

test('a database is dropped with the sessions that are open in it, and can be closed again', async (t) => {
  const db = await opened(t)
  const client = await db.pool.connect() // Never released.
  client.on('error', () => {})
  await client.query('begin')
  await client.query('lock leasehold.job')
  const waiting = db.leasehold.enqueue(bill, 1)
  waiting.catch(() => {})
  const other = new pg.Client(db.url)
  other.on('error', () => {})
  await other.connect()
  await db.close()
  await db.close()
  assert.equal(await exists(db.url), false)
  await Promise.allSettled([waiting]) // Sessions end one after the other: the lock may be free before the one that waits for it ends.
  await assert.rejects(other.query('select 1'))
})

test('the end of a block drops it, by asyncDispose', async () => {
  const db = await testDatabase({ server })
  await db[Symbol.asyncDispose]()
  assert.equal(await exists(db.url), false)
})

test('a template of yours is cloned with its tables and rows, whatever its name, and migrated', async (t) => {
  const name = `app "x"; drop table a; -- ${process.pid}`
  const quoted = `"${name.replaceAll('"', '""')}"`
  await asAdmin((admin) => admin.query(`create database ${quoted} template template0`))
  t.after(() => asAdmin((admin) => admin.query(`drop database ${quoted} with (force)`)))
  const { hostname: host, port, username: user } = new URL(server)
  const own = new pg.Client({ host, port: Number(port), user, database: name })
  await own.connect()
  await own.query('create table customer (name text)')
  await own.query(`insert into customer values ('ada')`)
  await assert.rejects(testDatabase({ server, template: name }), /a session is open in the template/)
  await own.end()
  const db = await opened(t, { template: name, schema: 'jobs' })
  assert.deepEqual((await db.pool.query('select name from customer')).rows, [{ name: 'ada' }])
  await db.leasehold.enqueue(bill, 1)
  await db.clock.advance('1d')
  assert.equal((await db.pool.query('select from jobs.job')).rowCount, 1)
})

test('another schema has a template of its own', async (t) => {
  const db = await opened(t, { schema: 'own_jobs' })
  await db.leasehold.enqueue(bill, 1)
  assert.equal((await db.pool.query('select from own_jobs.job')).rowCount, 1)
  await assert.rejects(testDatabase({ server, schema: 'odd "schema"' }), { code: 'SCHEMA' })
})

test('a template whose maker died is made again', async (t) => {
  const schema = `halfway_${process.pid}`
  const known = await templates()
  await opened(t, { schema })
  const made = (await templates()).filter((name) => !known.includes(name))
  assert.equal(made.length, 1)
  await asAdmin(async (admin) => {
    await admin.query(`drop database ${made[0]}`)
    await admin.query(`create database ${made[0]} template template0`) // And died.
  })
  const db = await opened(t, { schema })
  await db.leasehold.enqueue(bill, 1)
})

test('databases that a dead process left behind are dropped a day later, and no others', async (t) => {
  const names = {
    old: `leasehold_test_${Date.now() - 2 * 86_400_000}_0123456789ab`,
    young: `leasehold_test_${Date.now()}_0123456789ab`,
    yours: `leasehold_test_${process.pid}_mine`,
  }
  for (const name of Object.values(names)) await asAdmin((admin) => admin.query(`create database ${name}`))
  t.after(async () => {
    for (const name of Object.values(names)) {
      await asAdmin((admin) => admin.query(`drop database if exists ${name} with (force)`))
    }
  })
  await opened(t, { schema: `fresh_${process.pid}` }) // Its template is made now.
  const { rows } = await asAdmin((admin) =>
    admin.query('select datname from pg_database where datname = any ($1) order by 1', [Object.values(names)]),
  )
  assert.deepEqual(rows.map(({ datname }) => datname).sort(), [names.young, names.yours].sort())
})

test('a role that may not create databases, and a server that is not there, are explained', async (t) => {
  const db = await freshDatabase(t)
  const role = `no_databases_${process.pid}`
  await db.pool.query(`create role ${role} login`)
  t.after(() => asAdmin((admin) => admin.query(`drop role ${role}`)))
  const url = new URL(server)
  url.username = role
  await assert.rejects(testDatabase({ server: url.href }), /alter role … createdb/)
  url.port = '1'
  await assert.rejects(testDatabase({ server: url.href }), /no server listens there/)
  await assert.rejects(testDatabase({ server, template: 'not there' }), InvalidOptionError)
})

test('wrong options are refused, and a password is in no message', async () => {
  for (const [options, pattern] of [
    [{ server: 'localhost:secret' }, /must be a URL such as/],
    [{ server: 'mysql://u:secret@h/db' }, /must be a URL such as/],
    [{ server, template: '' }, /non-empty/],
    [{ server, template: 'a\0b' }, /NUL/],
    [{ server, template: 'x'.repeat(64) }, /longer than 63 bytes/],
    [{ server, templat: 'x' }, /did you mean template\?/],
  ] as const) {
    await assert.rejects(testDatabase(options as object), (error: Error) => {
      assert.ok(error instanceof InvalidOptionError)
      assert.match(error.message, pattern)
      assert.ok(!error.message.includes('secret'))
      return true
    })
  }
})
