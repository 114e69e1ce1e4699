/**
 * Applies each migration once. Any number of processes may call migrate() at the same moment, and any may die at any point.
 *
 * **A migration is one transaction.** It locks the table leasehold.migration (the ledger), checks whether the migration is
 * still missing, applies it and records it. The lock ends with the transaction, so a process that dies leaves all of a
 * migration or nothing. Each statement is a message of its own.
 *
 * **A migration without a transaction** only builds and drops indexes concurrently, which Postgres refuses to do inside one
 * (index-migration.ts). It is safe because of two rules:
 *
 * 1. It is recorded under the ledger lock, and only if every index that it builds exists and is valid at that moment.
 * 2. An index loses its name only under the ledger lock, before the migration is recorded, and is then dropped under a new
 *    name that no other index ever has. DROP itself never names an index that is in use.
 *
 * So after the migration is recorded no process of ours takes the index away, however late its statements arrive; a late
 * CREATE finds the name taken and does nothing (a name is never given to a second index; `npm run migrations` checks
 * that). A process that dies before the record leaves a missing index (built by the next process), a valid one (recorded
 * by the next), an invalid one or a renamed one (dropped by the next, which then builds it again). CREATE INDEX IF NOT
 * EXISTS reports success for an invalid index, so its result decides nothing.
 *
 * The remaining rules save work and are not needed for safety. An invalid index that a session is building is waited for:
 * the build may belong to a process that lives, or to one that died without its server session. Two builds on one table
 * must not run at once: the second waits for a lock with an open snapshot, the first waits for that snapshot, and
 * Postgres ends the first as a deadlock after it has done all its work. So a process builds only when no lock shows a
 * build on that table, and after it took a turn, a row that covers the time until its own lock shows, at most a minute.
 * A process that died with the turn delays the others by that time; one that stalled for longer may cause the deadlock,
 * and the index is built once more.
 *
 * None of this uses a session lock or a session setting, so it works through a transaction pooler and with a single client.
 */
import type { ClientBase, Pool } from 'pg'
import { SchemaError } from '../core/errors.ts'
import { CREATE_TURNS, RECORD_IF_VALID } from './index-migration.sql.ts'
import { applyIndexMigration, indexesBuiltBy } from './index-migration.ts'
import { type Queryable, quoteSchema, renderSchema } from './lane.ts'
import {
  CREATE_LEDGER,
  IS_APPLIED,
  LOCK_LEDGER,
  PREPARE_TABLES,
  READ_LEVEL,
  RECORD,
  SCHEMA_EXISTS,
} from './migrate.sql.ts'
import { MIGRATIONS, type Migration } from './migrations.generated.ts'
import { withTransaction } from './transaction.ts'

/** The schema this code was written for. */
export const CODE_LEVEL = MIGRATIONS.length

export interface MigrateOptions {
  /** Default: leasehold. */
  readonly schema?: string
}

interface Level {
  readonly version: number
  readonly servesFrom: number
}

/** Brings the schema to this code's level. Safe to call at every start. */
export function migrate(db: Pool | ClientBase, options: MigrateOptions = {}): Promise<void> {
  return applyMigrations(db, options, MIGRATIONS)
}

/** migrate() with a list of migrations, for tests. */
export async function applyMigrations(
  db: Pool | ClientBase,
  options: MigrateOptions,
  migrations: readonly Migration[],
): Promise<void> {
  const schema = options.schema ?? 'leasehold'
  const quoted = quoteSchema(schema)
  const sql = (text: string) => renderSchema(text, quoted)
  if ((await readLevel(db, quoted)) === undefined) {
    // IF NOT EXISTS asks for the right to create schemas even when there is nothing to create.
    const { rowCount } = await db.query(SCHEMA_EXISTS, [schema])
    if (rowCount === 0) await createOnce(db, `create schema if not exists ${quoted}`)
    await createOnce(db, sql(CREATE_LEDGER))
  }
  const level = await readLevel(db, quoted)
  refuseIfTooNew(schema, level)
  for (const migration of migrations.slice(level?.version ?? 0)) {
    if (migration.withoutTransaction) {
      await createOnce(db, sql(CREATE_TURNS))
      await applyIndexMigration(db, migration, quoted)
      continue
    }
    await withTransaction(db, async (tx) => {
      await tx.query(sql(LOCK_LEDGER))
      const { rowCount } = await tx.query(sql(IS_APPLIED), [migration.version])
      if (rowCount !== 0) return
      for (const statement of migration.statements) await tx.query(sql(statement))
      await tx.query(sql(RECORD), [migration.version, migration.name, migration.servesFrom])
    })
  }
  await db.query(sql(PREPARE_TABLES))
}

/** The SQL that `migrate` would send to an empty database, for review or for a DBA to run in psql. */
export function migrationSql(options: MigrateOptions = {}): string {
  return printMigrations(options, MIGRATIONS)
}

/** migrationSql() with a list of migrations, for tests. */
export function printMigrations(options: MigrateOptions, migrations: readonly Migration[]): string {
  const quoted = quoteSchema(options.schema ?? 'leasehold')
  const statements = [`create schema if not exists ${quoted}`, CREATE_LEDGER]
  for (const migration of migrations) statements.push(...printed(migration))
  statements.push(PREPARE_TABLES)
  return statements.map((statement) => `${renderSchema(statement, quoted)};\n`).join('\n')
}

function printed(migration: Migration): string[] {
  const { version, name, servesFrom, statements } = migration
  const values = [String(version), `'${name}'`, String(servesFrom)]
  const withValues = (record: string) => record.replaceAll(/\$(\d)/g, (_, number) => values[number - 1]!)
  if (!migration.withoutTransaction) return ['begin', ...statements, withValues(RECORD), 'commit']
  values.push(`'{${indexesBuiltBy(migration).join(',')}}'`)
  return [...statements, withValues(RECORD_IF_VALID)]
}

/**
 * Refuses a database this code cannot work on: one that was never migrated this far, or one whose newest migration no
 * longer serves code this old. In between, old and new code run side by side during a deploy.
 */
export async function checkSchema(db: Queryable, options: MigrateOptions = {}): Promise<void> {
  const schema = options.schema ?? 'leasehold'
  const level = await readLevel(db, quoteSchema(schema))
  if (level === undefined || level.version < CODE_LEVEL) {
    const state = level === undefined ? 'has no tables of Leasehold' : `is at level ${level.version}`
    throw new SchemaError(
      `Schema "${schema}" ${state}, this code needs level ${CODE_LEVEL}. Call migrate(), or run migrationSql(), first.`,
    )
  }
  refuseIfTooNew(schema, level)
}

function refuseIfTooNew(schema: string, level: Level | undefined): void {
  if (level === undefined || level.servesFrom <= CODE_LEVEL) return
  throw new SchemaError(
    `Schema "${schema}" serves code from level ${level.servesFrom}, this code is ${CODE_LEVEL}. Upgrade leasehold here.`,
  )
}

async function readLevel(db: Queryable, quoted: string): Promise<Level | undefined> {
  try {
    const { rows } = await db.query({ text: renderSchema(READ_LEVEL, quoted), rowMode: 'array' })
    const [version, servesFrom] = rows[0] as (number | null)[]
    return { version: version ?? 0, servesFrom: servesFrom ?? 0 }
  } catch (error) {
    const noSuchTableOrSchema = ['42P01', '3F000']
    if (noSuchTableOrSchema.includes(sqlState(error))) return undefined
    throw error
  }
}

// IF NOT EXISTS still loses a race: two sessions both see nothing, and the second meets the first one's catalogue row.
async function createOnce(db: Pool | ClientBase, statement: string): Promise<void> {
  try {
    await db.query(statement)
  } catch (error) {
    const alreadyThere = ['23505', '42P06', '42P07', '42710']
    if (!alreadyThere.includes(sqlState(error))) throw error
  }
}

function sqlState(error: unknown): string {
  return String((error as { code?: unknown } | null)?.code)
}
