// A lock on our tables: statements that wait for it end on the server, and leave no backend behind.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import pg from 'pg'
import { Connection } from '../../src/db/connection.ts'
import { PooledStatements, PRODUCER_DEADLINE_MS } from '../../src/db/pooled.ts'
import { maybeSent, Session } from '../../src/db/session.ts'
import { withTransactionOfOurs } from '../../src/db/transaction.ts'
import { kind, Leasehold } from '../../src/index.ts'
import { startPgBouncer } from '../../tools/pgbouncer.ts'
import { freshDatabase, type TestDatabase } from '../support/database.ts'
import { movableTimers } from '../support/movable-clock.ts'
import { needsPgBouncer } from '../support/optional-program.ts'
import { until } from '../support/until.ts'

const withPgBouncer = await needsPgBouncer()

const WAIT = { text: 'insert into target values (1)', rowMode: 'array' } as const
const PID = { text: 'select pg_backend_pid()', rowMode: 'array' } as const

/** A table that a session of the test holds locked. */
async function lockedTable(t: TestContext): Promise<TestDatabase & { unlock(): Promise<unknown> }> {
  const db = await freshDatabase(t)
  await db.pool.query('create table target (n int)')
  const holder = await db.connect()
  await holder.query('begin; lock table target')
  return { ...db, unlock: () => holder.query('commit') }
}

/** Sessions that wait for the lock, or run a statement of ours. */
async function waiting({ pool }: TestDatabase): Promise<number> {
  const { rows } = await pool.query(
    `
    select count(*)::int as count from pg_stat_activity
    where datname = current_database() and query = $1 and state <> 'idle'`,
    [WAIT.text],
  )
  return rows[0].count
}

async function waitingForLocks({ pool }: TestDatabase): Promise<number> {
  const { rows } = await pool.query(`select count(*)::int as count from pg_stat_activity
    where datname = current_database() and wait_event_type = 'Lock'`)
  return rows[0].count
}

async function sessions({ pool }: TestDatabase): Promise<number> {
  const { rows } = await pool.query(
    "select count(*)::int as count from pg_stat_activity where datname = current_database() and backend_type = 'client backend'",
  )
  return rows[0].count
}

async function written({ pool }: TestDatabase): Promise<number> {
  return (await pool.query('select count(*)::int as count from target')).rows[0].count
}

function sessionOn(t: TestContext, connectionString: string, deadlineMs: number): Session {
  const session = new Session({ connection: new Connection({ connectionString }).client, deadlineMs })
  t.after(() => session.abandon())
  return session
}

test('a statement that waits for a lock ends on the server, was not carried out, and keeps its connection', async (t) => {
  const db = await lockedTable(t)
  const session = sessionOn(t, db.url, 600_000)
  const before = (await session.query(PID)).rows
  for (let time = 0; time < 3; time++) {
    const late = session.query(WAIT)
    // With the error of statement_timeout; no clock of the test decides the moment.
    void until('it waits', async () => (await waiting(db)) === 1).then(() =>
      db.pool.query('select pg_cancel_backend($1)', [before[0]![0]]),
    )
    await assert.rejects(late, (error: Error & { code?: unknown }) => {
      assert.equal(error.code, 'DEADLINE')
      assert.equal((error.cause as { code?: unknown }).code, '57014')
      return !maybeSent(error)
    })
  }
  assert.deepEqual((await session.query(PID)).rows, before)
  assert.equal(await waiting(db), 0)
  await db.unlock()
  assert.equal(await written(db), 0)
})

test('statements that miss a short deadline leave no backends behind, however many', async (t) => {
  const db = await lockedTable(t)
  const before = await sessions(db)
  const several = [1, 2, 3].map(() => sessionOn(t, db.url, 400))
  let most = 0
  for (let time = 0; time < 4; time++) {
    const late = await Promise.allSettled(several.map((session) => session.query(WAIT)))
    assert.ok(late.every(({ status }) => status === 'rejected'))
    most = Math.max(most, await waiting(db))
  }
  assert.ok(most <= several.length, `${most} statements waited for ${several.length} sessions`)
  await until('no statement waits', async () => (await waiting(db)) === 0)
  await until('each session has one connection', async () => (await sessions(db)) <= before + several.length)
})

test('the server ends a statement a little before our deadline, unless the user’s own limit is lower', async (t) => {
  const db = await freshDatabase(t)
  const limit = async (url: string) => {
    const { rows } = await sessionOn(t, url, 10_000).query({ text: 'show statement_timeout', rowMode: 'array' })
    return rows[0]![0]
  }
  assert.equal(await limit(db.url), '9s')
  assert.equal(await limit(`${db.url}?statement_timeout=2000`), '2s')
  assert.equal(await limit(`${db.url}?statement_timeout=60000`), '9s')
  assert.equal(await limit(`${db.url}?options=${encodeURIComponent('-c statement_timeout=77s')}`), '77s')
})

test('a statement past our own deadline is cancelled, and leaves no backend', async (t) => {
  const clock = movableTimers(t)
  const db = await lockedTable(t)
  // As behind a pooler that drops the setting: the server has no limit.
  const unlimited = `${db.url}?options=${encodeURIComponent('-c statement_timeout=0')}`
  const session = sessionOn(t, unlimited, 600_000)
  const before = await sessions(db)
  for (let time = 0; time < 3; time++) {
    const late = session.query(WAIT)
    await until('the statement waits', async () => (await waiting(db)) === 1)
    clock.pass(600_000)
    await assert.rejects(late, (error: { code?: unknown }) => error.code === 'DEADLINE' && maybeSent(error))
    await until('it was cancelled', async () => (await waiting(db)) === 0)
  }
  await until('its connections are closed', async () => (await sessions(db)) <= before + 1)
})

test(
  'behind PgBouncer, which refuses the limit, a statement past our deadline is cancelled',
  withPgBouncer,
  async (t) => {
    const db = await lockedTable(t)
    const bouncer = await startPgBouncer({ url: db.url, poolSize: 2 })
    t.after(bouncer.stop)
    const session = sessionOn(t, bouncer.url, 600_000)
    assert.deepEqual((await session.query({ text: 'select 1', rowMode: 'array' })).rows, [[1]])
    const clock = movableTimers(t)
    // More statements than the pool has server connections: each leaked one would be missing.
    for (let time = 0; time < 3; time++) {
      const late = session.query(WAIT)
      await until('the statement waits', async () => (await waiting(db)) === 1)
      clock.pass(600_000)
      await assert.rejects(late, { code: 'DEADLINE' })
      await until('it was cancelled', async () => (await waiting(db)) === 0)
    }
  },
)

test('the limit is not sent again to a pooler that refused it', withPgBouncer, async (t) => {
  const db = await freshDatabase(t)
  const bouncer = await startPgBouncer({ url: db.url, poolSize: 2 })
  t.after(bouncer.stop)
  const connection = new Connection({ connectionString: bouncer.url }).client
  const opened = t.mock.method(pg.Client.prototype, 'connect').mock
  for (const expected of [2, 3, 4]) {
    const session = new Session({ connection, deadlineMs: 600_000 })
    t.after(() => session.abandon())
    assert.deepEqual((await session.query({ text: 'select 1', rowMode: 'array' })).rows, [[1]])
    assert.equal(opened.callCount(), expected)
  }
})

const SENDS: Readonly<Record<string, (pool: pg.Pool, deadlineMs: number) => Promise<unknown>>> = {
  statement: (pool, deadlineMs) => new PooledStatements(pool, deadlineMs).query(WAIT),
  transaction: (pool, deadlineMs) => withTransactionOfOurs(pool, deadlineMs, (tx) => tx.query(WAIT)),
}

for (const [what, send] of Object.entries(SENDS)) {
  test(`a producer’s ${what} past its deadline leaves no backend, and the pool works on`, async (t) => {
    const clock = movableTimers(t)
    const db = await lockedTable(t)
    const pool = new pg.Pool({ connectionString: db.url, max: 2 })
    pool.on('error', () => {}) // The database is dropped before the pool ends.
    t.after(() => pool.end())
    // The third waits for a client of the pool, and is never sent.
    const late = [1, 2, 3].map(() => send(pool, 600_000))
    const rejected = Promise.allSettled(late)
    await until('two statements wait', async () => (await waiting(db)) === 2)
    clock.pass(600_000)
    const codes = (await rejected).map((one) => one.status === 'rejected' && one.reason.code)
    assert.deepEqual(codes, ['DEADLINE', 'DEADLINE', 'DEADLINE'])
    await until('both were cancelled', async () => (await waiting(db)) === 0)
    assert.deepEqual((await pool.query({ text: 'select 1', rowMode: 'array' })).rows, [[1]])
    await db.unlock()
    assert.equal(await written(db), 0)
  })
}

test('a large call and one with keys have a deadline, too', async (t) => {
  const clock = movableTimers(t)
  const db = await freshDatabase(t)
  const holder = await db.connect()
  await holder.query('begin; lock table leasehold.job')
  const lh = new Leasehold({ connectionString: db.url })
  t.after(() => lh.close())
  const calls = [
    lh.enqueueMany(
      kind<number>('large'),
      Array.from({ length: 700 }, (_, input) => ({ input })),
    ),
    lh.enqueueMany(
      kind<number>('keyed'),
      [1, 2].map((input) => ({ input, idempotencyKey: String(input) })),
    ),
  ]
  const rejected = Promise.allSettled(calls)
  await until('both wait', async () => (await waitingForLocks(db)) === 2)
  clock.pass(PRODUCER_DEADLINE_MS)
  const codes = (await rejected).map((one) => one.status === 'rejected' && one.reason.code)
  assert.deepEqual(codes, ['DEADLINE', 'DEADLINE'])
  await until('both were cancelled', async () => (await waitingForLocks(db)) === 0)
  await holder.query('commit')
  assert.equal((await db.pool.query('select from leasehold.job')).rowCount, 0)
})
