// The statements that a migration without a transaction may hold, and how they are printed.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SchemaError } from '../../src/core/errors.ts'
import { printMigrations } from '../../src/db/migrate.ts'
import { checkIndexNames, readMigration } from '../../tools/embed-migrations.ts'
import { splitSql } from '../../tools/split-sql.ts'
import { freshDatabase } from '../support/database.ts'
import {
  BUILD,
  build,
  DROP,
  indexes,
  isBuild,
  isRecorded,
  LIST,
  leaveInvalidIndex,
} from '../support/index-migration.ts'

test('printed statements, sent one by one, build the index and record it', async (t) => {
  const db = await freshDatabase(t)
  await db.pool.query('drop schema leasehold cascade')
  const client = await db.connect()
  for (const statement of splitSql(printMigrations({}, LIST))) await client.query(statement)
  assert.deepEqual(
    (await indexes(db)).map(({ name, valid }) => [name, valid]),
    [['job_by_kind', true]],
  )
  assert.ok(await isRecorded(db))
})

test('a printed migration without a transaction records only a valid index', async (t) => {
  const db = await freshDatabase(t)
  const printed = splitSql(printMigrations({}, LIST))
  const at = printed.findIndex(isBuild)
  assert.equal(printed[at - 1], 'commit')
  const [, record] = printed.slice(at)
  await leaveInvalidIndex(db)
  for (const statement of [BUILD, record!]) await db.pool.query(statement)
  assert.equal(await isRecorded(db), false)
  await db.pool.query(DROP)
  for (const statement of [BUILD, record!]) await db.pool.query(statement)
  assert.ok(await isRecorded(db))
})

test('a migration without a transaction can hold nothing but concurrent builds and drops', () => {
  const file = (...statements: string[]) =>
    readMigration(
      '0001_x.sql',
      `-- serves code from: 1\n-- without a transaction\n--\n-- Why.\n${statements.join('\n')}`,
      1,
    )
  assert.equal(
    file(`${BUILD};`, '-- The old one.\ndrop index concurrently if exists leasehold.x;').withoutTransaction,
    true,
  )
  assert.equal(readMigration('0001_x.sql', `-- serves code from: 1\n${BUILD};`, 1).withoutTransaction, undefined)
  for (const statement of [
    'create index job_by_kind on leasehold.job (kind);',
    'create index concurrently job_by_kind on leasehold.job (kind);',
    'create unique index concurrently if not exists job_by_kind on leasehold.job (kind);',
    'create index concurrently if not exists job_by_kind on other.job (kind);',
    'create index concurrently if not exists discarded_index_1 on leasehold.job (kind);',
    'drop index concurrently leasehold.job_by_kind;',
    'drop index if exists leasehold.job_by_kind;',
    'drop index concurrently if exists job_by_kind;',
    'drop index concurrently if exists leasehold.a, leasehold.b;',
    `${BUILD};\nalter table leasehold.job add column x int;`,
  ]) {
    assert.throws(() => file(statement), SchemaError, statement)
  }
  assert.throws(() => file(`${BUILD};`, `${DROP};`), /named twice/)
  const before = {
    version: 1,
    name: 'a',
    servesFrom: 1,
    statements: ['create index job_by_kind on leasehold.job (id)'],
  }
  assert.throws(() => checkIndexNames([before, build]), /there was an index job_by_kind before/)
  checkIndexNames(LIST)
})
