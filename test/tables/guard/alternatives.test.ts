// Alternatives to the guard against two open incidents: what each prevents, and what not (docs/write-guard.md).
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type pg from 'pg'
import { withTransaction } from '../../../src/index.ts'
import { freshDatabase, type TestDatabase, waitUntilBlocked } from '../../support/database.ts'
import { gate } from '../../support/gate.ts'
import { createIncidents, openIncident, openIncidents, pidOf } from '../../support/incidents.ts'
import { inTime } from '../../support/worker.ts'

async function scene(t: TestContext, ddl = ''): Promise<TestDatabase> {
  const db = await freshDatabase(t)
  await createIncidents(db)
  if (ddl !== '') await db.pool.query(ddl)
  return db
}

const open = async (db: TestDatabase) => (await openIncidents(1)(db.pool)).length

const ONE_OPEN = 'create unique index one_open on incident (entity_id) where is_open'

/** The second writer gets the error of the index. */
async function openUnlessOpen(db: pg.Pool | pg.ClientBase): Promise<string | 'already open'> {
  try {
    return await openIncident(1)(db)
  } catch (error) {
    const { code, constraint } = error as { code?: string; constraint?: string }
    if (code === '23505' && constraint === 'one_open') return 'already open'
    throw error
  }
}

test('a partial unique index: the second insert fails, and a closed incident does not block', async (t) => {
  const db = await scene(t, ONE_OPEN)
  const first = await openUnlessOpen(db.pool)
  assert.equal(await openUnlessOpen(db.pool), 'already open')
  await db.pool.query('update incident set is_open = false where id = $1', [first])
  assert.notEqual(await openUnlessOpen(db.pool), 'already open')
  assert.equal(await open(db), 1)
})

for (const [end, expected] of [
  ['commit', /^already open$/],
  ['rollback', /^\d+$/],
] as const) {
  test(`a partial unique index: the second waits for the first to ${end}`, async (t) => {
    const db = await scene(t, ONE_OPEN)
    const [w1, w2] = [await db.connect(), await db.connect()]
    await w1.query('begin')
    await openIncident(1)(w1)
    const second = openUnlessOpen(w2)
    await waitUntilBlocked(await db.connect(), pidOf(w2))
    await w1.query(end)
    assert.match(await second, expected)
    assert.equal(await open(db), 1)
  })
}

test('a partial unique index: it has one rule for all, so it refuses what a policy allows', async (t) => {
  const db = await scene(t, ONE_OPEN)
  await openUnlessOpen(db.pool)
  // The policy allows two for entity 1. The index does not know policies.
  assert.equal(await openUnlessOpen(db.pool), 'already open')
})

test('a partial unique index: twenty at once, with on conflict do nothing, and one inserts', async (t) => {
  const db = await scene(t, ONE_OPEN)
  const insert = 'insert into incident (entity_id) values (1) on conflict (entity_id) where is_open do nothing'
  const answers = await Promise.all(Array.from({ length: 20 }, () => db.pool.query(insert)))
  assert.equal(answers.filter(({ rowCount }) => rowCount === 1).length, 1)
})

const ENTITY = 'create table entity (id bigint primary key); insert into entity values (1)'

/** The row lock in place of the advisory one: again two statements, again READ COMMITTED. */
function openUnderRowLock(strength: string, wrote: (tx: pg.ClientBase) => Promise<void> = async () => {}) {
  return async (tx: pg.ClientBase): Promise<boolean> => {
    await tx.query(`select from entity where id = 1 for ${strength}`)
    if ((await openIncidents(1)(tx)).length > 0) return false
    await openIncident(1)(tx)
    await wrote(tx)
    return true
  }
}

/** W1 has written and not committed when W2 begins. */
async function overlapping(db: TestDatabase, strength: string, secondWaits: boolean): Promise<boolean[]> {
  const [writing, mayCommit] = [gate(), gate()]
  const w1 = withTransaction(
    db.pool,
    openUnderRowLock(strength, () => {
      writing.open()
      return mayCommit.opened
    }),
  )
  await inTime(writing.opened, 'the first write')
  const second = await db.connect()
  const w2 = withTransaction(second, openUnderRowLock(strength))
  if (secondWaits) await waitUntilBlocked(await db.connect(), pidOf(second))
  else await w2
  mayCommit.open()
  return Promise.all([w1, w2])
}

for (const strength of ['update', 'no key update']) {
  test(`a row lock, for ${strength}: the second waits, and then sees the first one's incident`, async (t) => {
    const db = await scene(t, ENTITY)
    assert.deepEqual(await overlapping(db, strength, true), [true, false])
    assert.equal(await open(db), 1)
  })
}

test('a row lock: where there is no row there is no lock, and two are open', async (t) => {
  const db = await scene(t, `${ENTITY}; delete from entity`)
  assert.deepEqual(await overlapping(db, 'update', false), [true, true])
  assert.equal(await open(db), 2)
})

test('a row lock: "for update" stops inserts that refer to the row, "for no key update" does not', async (t) => {
  const db = await scene(t, `${ENTITY}; create table note (entity_id bigint references entity)`)
  const [holder, writer] = [await db.connect(), await db.connect()]
  const note = () => writer.query('insert into note values (1)')
  await holder.query('begin')
  await holder.query('select from entity where id = 1 for no key update')
  await inTime(note(), 'the note')
  await holder.query('rollback')
  await holder.query('begin')
  await holder.query('select from entity where id = 1 for update')
  const waiting = note()
  await waitUntilBlocked(holder, pidOf(writer))
  await holder.query('rollback')
  await waiting
})

/** Read and write in one transaction, as SERIALIZABLE wants it. Both have read before either writes. */
async function readThenWrite(db: TestDatabase, isolation: 'serializable' | 'repeatable read', attempts: number) {
  const bothHaveRead = gate()
  let reads = 0
  const attempt = (by: string) =>
    withTransaction(
      db.pool,
      async (tx) => {
        const found = await openIncidents(1)(tx)
        if (++reads >= 2) bothHaveRead.open()
        await bothHaveRead.opened
        if (found.length > 0) return 'already open'
        return openIncident(1, by)(tx).then(() => 'written')
      },
      { isolation, attempts },
    ).catch((error) => String(error.code))
  return (await Promise.all([attempt('W1'), attempt('W2')])).sort()
}

test('SERIALIZABLE with retry: Postgres aborts one, which begins again and sees the other', async (t) => {
  assert.deepEqual(await readThenWrite(await scene(t), 'serializable', 10), ['already open', 'written'])
})

test('SERIALIZABLE without retry: the loser gets 40001', async (t) => {
  assert.deepEqual(await readThenWrite(await scene(t), 'serializable', 1), ['40001', 'written'])
})

test('REPEATABLE READ permits both, and two are open', async (t) => {
  const db = await scene(t)
  assert.deepEqual(await readThenWrite(db, 'repeatable read', 10), ['written', 'written'])
  assert.equal(await open(db), 2)
})

test('SERIALIZABLE protects only against other SERIALIZABLE transactions: one writer in READ COMMITTED, and two are open', async (t) => {
  const db = await scene(t)
  const careful = await db.connect()
  await careful.query('begin isolation level serializable')
  assert.deepEqual(await openIncidents(1)(careful), [])
  await withTransaction(db.pool, openIncident(1, 'somebody else'), { isolation: 'read committed' })
  await openIncident(1, 'careful')(careful)
  await careful.query('commit')
  assert.equal(await open(db), 2)
})
