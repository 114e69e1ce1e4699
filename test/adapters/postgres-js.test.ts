import postgres from 'postgres'
import { fromPostgresJs } from '../../src/adapters/postgres-js.ts'
import { conforms, NO_HANDLES, type Scope, type Stack } from './conformance.ts'
import { runsFromPage } from './page.ts'

const PASS = /pass the sql that sql\.begin\(async \(sql\) => …\) passes/

function scopeOf(sql: postgres.TransactionSql): Scope {
  return {
    tx: fromPostgresJs(sql),
    execute: (text) => sql.unsafe(text),
    nested: (work) => sql.savepoint((inner) => work(scopeOf(inner))) as never,
  }
}

function open(url: string, options: postgres.Options<Record<string, never>> = {}): Stack {
  const sql = postgres(url, { ...options, onnotice: () => {} })
  return {
    transaction: (work) => sql.begin((own) => work(scopeOf(own))) as never,
    refused: () => [
      ['the sql of all connections', () => fromPostgresJs(sql as never), PASS],
      ...NO_HANDLES.map((each) => [String(each), () => fromPostgresJs(each), PASS] as const),
    ],
    close: () => sql.end({ timeout: 0 }),
  }
}

conforms('postgres.js', open)
conforms('postgres.js in camel case, without prepared statements', (url) =>
  open(url, { transform: postgres.camel, prepare: false }),
)

runsFromPage('postgres-js.ts')
