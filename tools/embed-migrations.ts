/**
 * Turns migrations/*.sql into src/db/migrations.generated.ts, so that the published package reads no files and survives
 * bundlers. `npm run migrations` writes it; a test fails when it is out of date.
 */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { indexChangeOf } from '../src/db/index-migration.ts'
import type { Migration } from '../src/db/migrations.generated.ts'
import { splitSql } from './split-sql.ts'

const directory = new URL('../migrations/', import.meta.url)
export const GENERATED = new URL('../src/db/migrations.generated.ts', import.meta.url)

const WITHOUT_TRANSACTION = '-- without a transaction\n'

/** One file. Its number must be `version`. */
export function readMigration(file: string, sql: string, version: number): Migration {
  if (Number(/^(\d{4})_[a-z0-9_]+\.sql$/.exec(file)?.[1]) !== version) {
    throw new Error(`${file}: expected number ${version}`)
  }
  const [header, number] = /^-- serves code from: (\d+)\n/.exec(sql) ?? []
  const servesFrom = Number(number)
  if (header === undefined || !(servesFrom >= 1 && servesFrom <= version)) {
    throw new Error(`${file}: first line must be "-- serves code from: N"`)
  }
  const migration = { version, name: file.slice(5, -4), servesFrom, statements: splitSql(sql) }
  if (!sql.startsWith(WITHOUT_TRANSACTION, header.length)) return migration
  const indexes = migration.statements.map((statement) => indexChangeOf(statement).index)
  if (new Set(indexes).size !== indexes.length) throw new Error(`${file}: an index is named twice`)
  return { ...migration, withoutTransaction: true }
}

/**
 * A migration without a transaction cannot reuse the name of an earlier index: the old index would be taken for the new one.
 */
export function checkIndexNames(migrations: readonly Migration[]): void {
  const names = new Set<string>()
  for (const { version, statements } of migrations) {
    for (const [, name] of statements
      .join('\n')
      .matchAll(/^create (?:unique )?index (?:concurrently )?(?:if not exists )?(\w+)/gm)) {
      if (names.has(name!)) throw new Error(`migration ${version}: there was an index ${name} before`)
      names.add(name!)
    }
  }
}

export function generateMigrations(): string {
  const files = readdirSync(directory)
    .filter((file) => file.endsWith('.sql'))
    .sort()
  const migrations = files.map((file, index) =>
    readMigration(file, readFileSync(new URL(file, directory), 'utf8'), index + 1),
  )
  checkIndexNames(migrations)
  return `// Made from migrations/*.sql by \`npm run migrations\`. Do not edit.
export interface Migration {
  readonly version: number
  readonly name: string
  /** The oldest code level that still works on this schema. */
  readonly servesFrom: number
  /** Sent one by one. */
  readonly statements: readonly string[]
  /** Each statement builds or drops an index, concurrently: src/db/index-migration.ts. */
  readonly withoutTransaction?: true
}

export const MIGRATIONS: readonly Migration[] = ${JSON.stringify(migrations, null, 2)}
`
}

if (process.argv[1] === fileURLToPath(import.meta.url)) writeFileSync(GENERATED, generateMigrations())
