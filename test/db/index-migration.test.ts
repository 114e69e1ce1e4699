// Migrations without a transaction build and drop indexes concurrently.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import pg from 'pg'
import { applyMigrations } from '../../src/db/migrate.ts'
import { MIGRATIONS } from '../../src/db/migrations.generated.ts'
import { startPgBouncer } from '../../tools/pgbouncer.ts'
import { freshDatabase } from '../support/database.ts'
import { gate } from '../support/gate.ts'
import {
  buildUnderWay,
  DROP,
  dies,
  endTurns,
  indexes,
  isBuild,
  isBuiltAndRecorded,
  isDrop,
  isRecorded,
  LIST,
  lastCommitOf,
  leaveInvalidIndex,
  migration,
  startProcess,
  VERSION,
} from '../support/index-migration.ts'
import { needsPgBouncer } from '../support/optional-program.ts'
import { connectAs, newRole } from '../support/roles.ts'
import { until } from '../support/until.ts'
import { lastFirst } from '../support/worker.ts'

const withPgBouncer = await needsPgBouncer()

test('processes that start at once build an index once and record it once', async (t) => {
  const db = await freshDatabase(t)
  const othersLooked = gate()
  const builds: string[] = []
  const before = (text: string) => {
    if (!isBuild(text)) return
    builds.push(text)
    return othersLooked.opened
  }
  const crowd = await Promise.all(Array.from({ length: 6 }, async () => startProcess(await db.connect(), { before })))
  const done = crowd.map((one) => one.migrate())
  // The first process took its turn and has not sent the build: only the turn shows the others that it will.
  await until('one process builds', () => builds.length > 0)
  done.push(applyMigrations(db.pool, {}, LIST))
  await until('all the others look again', () => crowd.filter((one) => one.looks() > 2).length >= 5)
  assert.equal(builds.length, 1)
  othersLooked.open()
  await Promise.all(done)
  await isBuiltAndRecorded(db)
  assert.equal(builds.length, 1)
})

test('an invalid index that a cancelled build left behind is built again', async (t) => {
  const db = await freshDatabase(t)
  const left = await leaveInvalidIndex(db)
  const next = await startProcess(await db.connect())
  await next.migrate()
  assert.notEqual((await isBuiltAndRecorded(db)).oid, left)
})

test('an invalid index that a failed build left behind is built again', async (t) => {
  const db = await freshDatabase(t)
  await db.pool.query(`select leasehold.enqueue('k', '1'), leasehold.enqueue('k', '1')`)
  await assert.rejects(
    db.pool.query('create unique index concurrently if not exists job_by_kind on leasehold.job (kind)'),
    { code: '23505' },
  )
  assert.equal((await indexes(db))[0]?.valid, false)
  await applyMigrations(db.pool, {}, LIST)
  await isBuiltAndRecorded(db)
})

test('a process waits for another session’s build, also of a role whose activity is hidden', async (t) => {
  const undo = lastFirst(t)
  const owner = await newRole(undo, 'owner')
  const db = await freshDatabase(undo as TestContext)
  await db.pool.query(`create schema elsewhere authorization ${owner}`)
  const waiting = await startProcess(await connectAs(undo, db, owner))
  await waiting.migrate(MIGRATIONS, 'elsewhere')

  const { finish } = await buildUnderWay(db, 'elsewhere')
  const [begun] = await indexes(db, 'elsewhere')
  const done = waiting.migrate(LIST, 'elsewhere')
  await until('it has looked three times', () => waiting.looks() >= 3)
  assert.equal(begun?.valid, false)
  assert.equal(await isRecorded(db, 'elsewhere'), false)
  await finish()
  await done
  assert.equal((await isBuiltAndRecorded(db, 'elsewhere')).oid, begun?.oid, 'the other session’s index is kept')
  assert.equal(waiting.sent.filter(isBuild).length, 0)
})

test('a process waits for a build that has released its lock and not yet committed', async (t) => {
  const db = await freshDatabase(t)
  const left = await leaveInvalidIndex(db)
  const builder = await lastCommitOf(db, left)
  const waiting = await startProcess(await db.connect())
  const done = waiting.migrate()
  await until('it has looked three times', () => waiting.looks() >= 3)
  await builder.query('commit')
  await done
  assert.equal((await isBuiltAndRecorded(db)).oid, left)
})

test('a build that commits between the checks of index and locks is kept', async (t) => {
  const db = await freshDatabase(t)
  const left = await leaveInvalidIndex(db)
  const builder = await lastCommitOf(db, left)
  let checks = 0
  const before = (text: string) => text.includes('is_being_built') && ++checks === 1 && builder.query('commit')
  const waiting = await startProcess(await db.connect(), { before })
  await waiting.migrate()
  assert.equal(checks, 1)
  assert.equal((await isBuiltAndRecorded(db)).oid, left)
})

test('a process that dies between the build and the record leaves the record to the next', async (t) => {
  const db = await freshDatabase(t)
  const doomed = await startProcess(await db.connect(), { after: (text) => isBuild(text) && dies() })
  await assert.rejects(doomed.migrate(), /died/)
  const [built] = await indexes(db)
  assert.deepEqual([built?.valid, await isRecorded(db)], [true, false])
  const next = await startProcess(await db.connect())
  await next.migrate()
  assert.equal((await isBuiltAndRecorded(db)).oid, built?.oid)
  assert.equal(next.sent.filter(isBuild).length, 0)
})

test('a process that dies before it sends the build delays the others until its turn ends', async (t) => {
  const db = await freshDatabase(t)
  const doomed = await startProcess(await db.connect(), { before: (text) => isBuild(text) && dies() })
  await assert.rejects(doomed.migrate(), /died/)
  const next = await startProcess(await db.connect())
  const done = next.migrate()
  await until('it has looked three times', () => next.looks() >= 3)
  assert.equal(next.sent.filter(isBuild).length, 0)
  await endTurns(db)
  await done
  await isBuiltAndRecorded(db)
})

test('a turn set by a clock that has since jumped back delays no process', async (t) => {
  const db = await freshDatabase(t)
  const doomed = await startProcess(await db.connect(), { before: (text) => isBuild(text) && dies() })
  await assert.rejects(doomed.migrate(), /died/)
  await db.pool.query("update leasehold.migration_turn set until = now() + interval '1 day'")
  await applyMigrations(db.pool, {}, LIST)
  await isBuiltAndRecorded(db)
})

test('a process that dies before it drops a discarded index leaves that to the next', async (t) => {
  const db = await freshDatabase(t)
  const left = await leaveInvalidIndex(db)
  const doomed = await startProcess(await db.connect(), { before: (text) => isDrop(text) && dies() })
  await assert.rejects(doomed.migrate(), /died/)
  assert.deepEqual(await indexes(db), [{ oid: left, name: `discarded_index_${left}`, valid: false }])
  await endTurns(db)
  await applyMigrations(db.pool, {}, LIST)
  await isBuiltAndRecorded(db)
})

for (const [what, holdsBack] of [
  ['build', isBuild],
  ['drop', isDrop],
] as const) {
  test(`a ${what} that arrives after the migration was recorded changes nothing`, async (t) => {
    const db = await freshDatabase(t)
    await leaveInvalidIndex(db)
    const [stalled, goOn] = [gate(), gate()]
    const late = await startProcess(await db.connect(), {
      before: (text) => {
        if (!holdsBack(text)) return
        stalled.open()
        return goOn.opened
      },
    })
    const done = late.migrate()
    await stalled.opened
    await endTurns(db)
    await applyMigrations(db.pool, {}, LIST)
    const built = await isBuiltAndRecorded(db)
    goOn.open()
    await done
    assert.ok(late.sent.some(holdsBack))
    assert.deepEqual(await isBuiltAndRecorded(db), built)
  })
}

test('a migration drops an index, and a process that died in the middle of it is replaced', async (t) => {
  const db = await freshDatabase(t)
  const list = [...LIST, migration(VERSION + 1, DROP)]
  await applyMigrations(db.pool, {}, LIST)
  const doomed = await startProcess(await db.connect(), { before: (text) => isDrop(text) && dies() })
  await assert.rejects(doomed.migrate(list), /died/)
  assert.equal(await isRecorded(db, 'leasehold', VERSION + 1), false)
  await endTurns(db)
  await Promise.all([applyMigrations(db.pool, {}, list), applyMigrations(await db.connect(), {}, list)])
  assert.deepEqual(await indexes(db), [])
  assert.ok(await isRecorded(db, 'leasehold', VERSION + 1))
})

test('through a transaction pooler an index is built once and recorded once', withPgBouncer, async (t) => {
  const undo = lastFirst(t)
  const db = await freshDatabase(undo as TestContext)
  await leaveInvalidIndex(db)
  const bouncer = await startPgBouncer({ url: db.url, poolSize: 3 })
  undo.after(() => bouncer.stop())
  const pool = new pg.Pool({ connectionString: bouncer.url, max: 5 })
  const client = new pg.Client(bouncer.url)
  await client.connect()
  await Promise.all([pool, pool, client].map((one) => applyMigrations(one, {}, LIST)))
  await Promise.all([pool.end(), client.end()])
  await isBuiltAndRecorded(db)
})

test('a relation of the same name that is not an index is reported', async (t) => {
  const db = await freshDatabase(t)
  await db.pool.query('create table leasehold.job_by_kind ()')
  await assert.rejects(applyMigrations(db.pool, {}, LIST), { code: 'SCHEMA', message: /job_by_kind exists and is not/ })
})
