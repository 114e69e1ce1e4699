/**
 * Turns migrations/*.sql into src/db/migrations.generated.ts, so that the published package reads no files and survives
 * bundlers. `npm run migrations` writes it; a test fails when it is out of date.
 */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { splitSql } from './split-sql.ts'

const directory = new URL('../migrations/', import.meta.url)
export const GENERATED = new URL('../src/db/migrations.generated.ts', import.meta.url)

export function generateMigrations(): string {
  const files = readdirSync(directory)
    .filter((file) => file.endsWith('.sql'))
    .sort()
  const migrations = files.map((file, index) => {
    const sql = readFileSync(new URL(file, directory), 'utf8')
    const version = Number(/^(\d{4})_[a-z0-9_]+\.sql$/.exec(file)?.[1])
    if (version !== index + 1) throw new Error(`${file}: expected number ${index + 1}`)
    const servesFrom = Number(/^-- serves code from: (\d+)\n/.exec(sql)?.[1])
    if (!(servesFrom >= 1 && servesFrom <= version))
      throw new Error(`${file}: first line must be "-- serves code from: N"`)
    return { version, name: file.slice(5, -4), servesFrom, statements: splitSql(sql) }
  })
  return `// Made from migrations/*.sql by \`npm run migrations\`. Do not edit.
export interface Migration {
  readonly version: number
  readonly name: string
  /** The oldest code level that still works on this schema. */
  readonly servesFrom: number
  /** Sent one by one. */
  readonly statements: readonly string[]
}

export const MIGRATIONS: readonly Migration[] = ${JSON.stringify(migrations, null, 2)}
`
}

if (process.argv[1] === fileURLToPath(import.meta.url)) writeFileSync(GENERATED, generateMigrations())
