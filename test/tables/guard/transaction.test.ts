// The guard in the caller's transaction: what it refuses, and what it leaves behind.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import pg from 'pg'
import { InvalidOptionError } from '../../../src/index.ts'
import { ConcurrentModificationError, LockTimeoutError, WriteGuard } from '../../../src/tables/index.ts'
import { suiteDatabase } from '../../support/database.ts'
import { advisoryLocks, createIncidents, LOCK_ELSEWHERE, openIncidents, opening } from '../../support/incidents.ts'

const db = await suiteDatabase()
await createIncidents(db)
const guard = new WriteGuard(db.pool, { lockTimeout: '1m' })
const impatient = new WriteGuard(db.pool, { lockTimeout: 30 })
let entities = 0
const nextEntity = () => ++entities

const refusing = (reason: RegExp) => (error: unknown) => {
  assert.ok(error instanceof InvalidOptionError)
  assert.equal(error.option, 'tx')
  assert.match(error.message, reason)
  return true
}

/** Held by another session, so that a waiting guard would be found waiting. */
async function lockedElsewhere(entity: number): Promise<pg.Client> {
  const other = await db.connect()
  await other.query('begin')
  await other.query(LOCK_ELSEWHERE, [`entity:${entity}`])
  return other
}

test('the write is part of the transaction, and the lock is held until it ends', async () => {
  const entity = nextEntity()
  const tx = await db.connect()
  await tx.query('begin')
  const id = await guard.run({ ...opening(entity), seen: [], tx })
  assert.equal(await advisoryLocks(db), 1)
  assert.deepEqual(await openIncidents(entity)(db.pool), [])
  await tx.query('commit')
  assert.equal(await advisoryLocks(db), 0)
  assert.deepEqual(await openIncidents(entity)(db.pool), [id])
})

test('READ UNCOMMITTED, which Postgres treats as READ COMMITTED, is accepted', async () => {
  const tx = await db.connect()
  await tx.query('begin isolation level read uncommitted')
  await guard.run({ ...opening(nextEntity()), seen: [], tx })
  await tx.query('commit')
})

for (const level of ['repeatable read', 'serializable']) {
  test(`${level} is refused before any lock is waited for`, async () => {
    const entity = nextEntity()
    const other = await lockedElsewhere(entity)
    const tx = await db.connect()
    await tx.query(`begin isolation level ${level}`)
    const attempt = impatient.run({ ...opening(entity), seen: [], tx })
    await assert.rejects(attempt, refusing(new RegExp(`isolation level is ${level}.*READ COMMITTED`)))
    await tx.query('commit') // Usable to its end: nothing in it failed.
    await other.query('rollback')
    assert.deepEqual(await openIncidents(entity)(db.pool), [])
  })

  test(`a transaction of its own is READ COMMITTED, though the database's default is ${level}`, async () => {
    const entity = nextEntity()
    const url = new URL(db.url)
    url.searchParams.set('options', `-c default_transaction_isolation=${level.replace(' ', '\\ ')}`)
    const pool = new pg.Pool({ connectionString: url.href })
    const tx = await pool.connect()
    try {
      await tx.query('begin')
      await assert.rejects(guard.run({ ...opening(entity), seen: [], tx }), refusing(/isolation level/))
      await tx.query('rollback')
      const shown = await new WriteGuard(pool).run({
        ...opening(entity),
        seen: [],
        write: async (own) => (await own.query('show transaction_isolation')).rows[0].transaction_isolation,
      })
      assert.equal(shown, 'read committed')
    } finally {
      tx.release()
      await pool.end()
    }
  })
}

test('a client without a transaction is refused before any lock is waited for', async () => {
  const entity = nextEntity()
  const other = await lockedElsewhere(entity)
  const client = await db.connect()
  const attempt = () => impatient.run({ ...opening(entity), seen: [], tx: client })
  await assert.rejects(attempt, refusing(/no transaction is open/))
  await client.query('begin')
  await client.query('commit')
  await assert.rejects(attempt, refusing(/no transaction is open/))
  await other.query('rollback')
  await assert.rejects(attempt, refusing(/no transaction is open/))
  assert.deepEqual(await openIncidents(entity)(db.pool), [])
})

test('a mark of an earlier transaction is not accepted', async () => {
  const entity = nextEntity()
  const client = await db.connect()
  await client.query('begin')
  await guard.run({ ...opening(entity), seen: [], tx: client })
  await client.query('commit')
  const { rows } = await client.query("select current_setting('leasehold.guard', true) as mark")
  assert.equal(rows[0].mark || '', '')
  await assert.rejects(guard.run({ ...opening(entity), seen: [], tx: client }), refusing(/no transaction is open/))
})

test('a wrapper that sends each statement to another session is detected', async () => {
  const sessions = [await db.connect(), await db.connect()]
  for (const session of sessions) await session.query('begin')
  let turn = 0
  const wrapper = { query: (...args: [string]) => sessions[turn++ % 2]!.query(...args) } as unknown as pg.ClientBase
  await assert.rejects(guard.run({ ...opening(nextEntity()), seen: [], tx: wrapper }), refusing(/no transaction/))
})

test('a savepoint is part of its transaction', async () => {
  const entity = nextEntity()
  const tx = await db.connect()
  await tx.query('begin')
  await tx.query('savepoint before')
  await guard.run({ ...opening(entity), seen: [], tx })
  await tx.query('rollback to savepoint before')
  await guard.run({ ...opening(entity), seen: [], tx })
  await tx.query('commit')
  assert.equal((await openIncidents(entity)(db.pool)).length, 1)
})

test("the lock timeout does not stay in the caller's transaction", async () => {
  const tx = await db.connect()
  const shown = async () => (await tx.query('show lock_timeout')).rows[0].lock_timeout
  await tx.query("set lock_timeout = '7s'")
  await tx.query('begin')
  await impatient.run({ ...opening(nextEntity()), seen: [], tx })
  assert.equal(await shown(), '7s')
  await tx.query("set local lock_timeout = '9s'")
  const entity = nextEntity()
  await impatient.run({ ...opening(entity), seen: [], tx })
  await assert.rejects(impatient.run({ ...opening(entity), seen: [], tx }), ConcurrentModificationError)
  assert.equal(await shown(), '9s')
  await tx.query('commit')
  assert.equal(await shown(), '7s')
})

test('a lock timeout aborts the transaction, and the error names it', async () => {
  const entity = nextEntity()
  const other = await lockedElsewhere(entity)
  const tx = await db.connect()
  await tx.query('begin')
  await assert.rejects(impatient.run({ ...opening(entity), seen: [], tx }), LockTimeoutError)
  await assert.rejects(tx.query('select 1'), { code: '25P02' })
  await tx.query('rollback')
  await other.query('rollback')
  assert.equal((await tx.query('show lock_timeout')).rows[0].lock_timeout, '0')
})

test('a transaction that has failed is not mistaken for none', async () => {
  const tx = await db.connect()
  await tx.query('begin')
  await tx.query('select 1 / 0').catch(() => {})
  await assert.rejects(guard.run({ ...opening(nextEntity()), seen: [], tx }), refusing(/can only be rolled back/))
  await tx.query('rollback')
})
