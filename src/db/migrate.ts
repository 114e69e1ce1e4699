/**
 * Applies migrations once, whoever calls: any number of processes may start at the same moment, and any may die.
 *
 * Each migration is one transaction that first locks the table leasehold.migration, then looks whether it is still
 * missing. The lock ends with the transaction, so a process that dies leaves either all of a migration or nothing, and it
 * works through a transaction pooler. Each statement is a message of its own.
 */
import type { ClientBase, Pool } from 'pg'
import { SchemaError } from '../core/errors.ts'
import { type Queryable, quoteSchema, renderSchema } from './lane.ts'
import { CREATE_LEDGER, IS_APPLIED, LOCK_LEDGER, PREPARE_TABLES, READ_LEVEL, RECORD, SCHEMA_EXISTS } from './migrate.sql.ts'
import { MIGRATIONS } from './migrations.generated.ts'
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
export async function migrate(db: Pool | ClientBase, options: MigrateOptions = {}): Promise<void> {
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
  for (const migration of MIGRATIONS.slice(level?.version ?? 0)) {
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

/** The SQL that `migrate` would send to an empty database, for review or for a DBA to run by hand. */
export function migrationSql(options: MigrateOptions = {}): string {
  const quoted = quoteSchema(options.schema ?? 'leasehold')
  const statements = [`create schema if not exists ${quoted}`, CREATE_LEDGER]
  for (const { version, name, servesFrom, statements: own } of MIGRATIONS) {
    const record = RECORD.replace('$1', String(version)).replace('$2', `'${name}'`).replace('$3', String(servesFrom))
    statements.push('begin', ...own, record, 'commit')
  }
  statements.push(PREPARE_TABLES)
  return statements.map((statement) => `${renderSchema(statement, quoted)};\n`).join('\n')
}

/**
 * Refuses a database this code cannot work on: one that was never migrated this far, or one whose newest migration no
 * longer serves code this old. In between, old and new code run side by side during a deploy.
 */
export async function checkSchema(db: Queryable, options: MigrateOptions = {}): Promise<void> {
  const schema = options.schema ?? 'leasehold'
  const level = await readLevel(db, quoteSchema(schema))
  if (level === undefined || level.version < CODE_LEVEL) {
    throw new SchemaError(
      `Schema "${schema}" is at level ${level?.version ?? 0}, this code needs ${CODE_LEVEL}. Call migrate(), or run migrationSql(), first.`,
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
