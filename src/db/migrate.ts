/**
 * Applies migrations once, whoever calls: any number of processes may start at the same moment, and any may die.
 *
 * Each migration is one transaction that first locks the table leasehold.migration, then looks whether it is still
 * missing. The lock ends with the transaction, so a process that dies leaves either all of a migration or nothing, and
 * works through a transaction pooler. Each statement is a message of its own.
 */
import type { ClientBase, Pool } from 'pg'
import { SchemaError } from '../core/errors.ts'
import { quoteSchema, renderSchema } from './lane.ts'
import { MIGRATIONS } from './migrations.generated.ts'
import { withTransaction } from './transaction.ts'

/** The schema this code was written for. */
export const CODE_LEVEL = MIGRATIONS.length

export interface MigrateOptions {
  /** Default: leasehold. */
  readonly schema?: string
}

const CREATE_LEDGER = `create table if not exists leasehold.migration (
  version     integer not null,
  name        text not null,
  serves_from integer not null,
  applied_at  timestamptz not null default now(),
  constraint migration_pkey primary key (version)
)`

const PREPARE_TABLES = 'select leasehold.make_partitions(7), leasehold.reserve_pages()'

/** Brings the schema to this code's level. Safe to call at every start. */
export async function migrate(db: Pool | ClientBase, options: MigrateOptions = {}): Promise<void> {
  const quoted = quoteSchema(options.schema ?? 'leasehold')
  const sql = (text: string) => renderSchema(text, quoted)
  if ((await readLevel(db, quoted)) === undefined) {
    await createOnce(db, `create schema if not exists ${quoted}`)
    await createOnce(db, sql(CREATE_LEDGER))
  }
  await checkServes(db, options)
  for (const migration of MIGRATIONS) {
    if (((await readLevel(db, quoted))?.version ?? 0) >= migration.version) continue
    await withTransaction(db, async (tx) => {
      await tx.query(sql('lock table leasehold.migration in exclusive mode'))
      const { rowCount } = await tx.query(sql('select from leasehold.migration where version = $1'), [
        migration.version,
      ])
      if (rowCount !== 0) return
      for (const statement of migration.statements) await tx.query(sql(statement))
      await tx.query(sql('insert into leasehold.migration (version, name, serves_from) values ($1, $2, $3)'), [
        migration.version,
        migration.name,
        migration.servesFrom,
      ])
    })
  }
  // Before the first row: a day that has rows in the default partition can get no partition of its own.
  await db.query(sql(PREPARE_TABLES))
}

/** The SQL that `migrate` would send to an empty database, for review or for a DBA to run by hand. */
export function migrationSql(options: MigrateOptions = {}): string {
  const quoted = quoteSchema(options.schema ?? 'leasehold')
  const statements = [`create schema if not exists ${quoted}`, CREATE_LEDGER]
  for (const { version, name, servesFrom, statements: own } of MIGRATIONS) {
    statements.push('begin', ...own)
    statements.push(
      `insert into leasehold.migration (version, name, serves_from) values (${version}, '${name}', ${servesFrom})`,
    )
    statements.push('commit')
  }
  statements.push(PREPARE_TABLES)
  return statements.map((statement) => `${renderSchema(statement, quoted)};\n`).join('\n')
}

/**
 * Refuses a database this code cannot work on: one that was never migrated this far, or one whose newest migration no
 * longer serves code this old. In between, old and new code run side by side during a deploy.
 */
export async function checkSchema(db: Pool | ClientBase, options: MigrateOptions = {}): Promise<void> {
  const schema = options.schema ?? 'leasehold'
  const level = await readLevel(db, quoteSchema(schema))
  if (level === undefined || level.version < CODE_LEVEL) {
    throw new SchemaError(
      `Schema "${schema}" is at level ${level?.version ?? 0}, this code needs ${CODE_LEVEL}. Run the migrations first.`,
    )
  }
  await checkServes(db, options)
}

async function checkServes(db: Pool | ClientBase, options: MigrateOptions): Promise<void> {
  const schema = options.schema ?? 'leasehold'
  const level = await readLevel(db, quoteSchema(schema))
  if (level !== undefined && level.servesFrom > CODE_LEVEL) {
    throw new SchemaError(
      `Schema "${schema}" serves code from level ${level.servesFrom}, this code is ${CODE_LEVEL}. Upgrade leasehold in this process.`,
    )
  }
}

async function readLevel(
  db: Pool | ClientBase,
  quoted: string,
): Promise<{ version: number; servesFrom: number } | undefined> {
  try {
    const { rows } = await db.query<{ version: number; serves_from: number }>(
      renderSchema('select version, serves_from from leasehold.migration order by version desc limit 1', quoted),
    )
    return rows[0] === undefined
      ? { version: 0, servesFrom: 0 }
      : { version: rows[0].version, servesFrom: rows[0].serves_from }
  } catch (error) {
    if (sqlState(error) === '42P01' || sqlState(error) === '3F000') return undefined
    throw error
  }
}

// IF NOT EXISTS still loses a race: two sessions both see nothing, and the second meets the first one's catalogue row.
async function createOnce(db: Pool | ClientBase, statement: string): Promise<void> {
  try {
    await db.query(statement)
  } catch (error) {
    if (!['23505', '42P06', '42P07', '42710'].includes(sqlState(error) ?? '')) throw error
  }
}

function sqlState(error: unknown): string | undefined {
  return (error as { code?: string } | null)?.code
}
