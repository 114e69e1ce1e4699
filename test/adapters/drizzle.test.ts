import { sql } from 'drizzle-orm'
import { type NodePgDatabase, drizzle as onPg } from 'drizzle-orm/node-postgres'
import { drizzle as onPostgresJs, type PostgresJsDatabase } from 'drizzle-orm/postgres-js'
import pg from 'pg'
import postgres from 'postgres'
import { fromDrizzle } from '../../src/adapters/drizzle.ts'
import { conforms, NO_HANDLES, type Scope, type Stack } from './conformance.ts'
import { runsFromPage } from './page.ts'

const PASS = /pass the tx that db\.transaction\(async \(tx\) => …\) passes/

type Database = NodePgDatabase | PostgresJsDatabase
type Transaction = Parameters<Parameters<Database['transaction']>[0]>[0]

function scopeOf(tx: Transaction): Scope {
  return {
    tx: fromDrizzle(tx),
    execute: async (text) => tx.execute(sql.raw(text)),
    nested: (work) => tx.transaction((inner) => work(scopeOf(inner))),
  }
}

function stackOf(db: Database, close: () => Promise<void>): Stack {
  return {
    transaction: (work) => db.transaction((tx) => work(scopeOf(tx))),
    refused: () => [
      ['the database', () => fromDrizzle(db as never), PASS],
      ...NO_HANDLES.map((each) => [String(each), () => fromDrizzle(each), PASS] as const),
      [
        'another driver',
        () => fromDrizzle({ rollback() {}, _: { session: {} } } as never),
        /driver is not node-postgres/,
      ],
    ],
    close,
  }
}

conforms('Drizzle on pg', (url) => {
  const pool = new pg.Pool({ connectionString: url })
  pool.on('error', () => {})
  return stackOf(onPg(pool), () => pool.end())
})

conforms('Drizzle on postgres.js', (url) => {
  const client = postgres(url, { onnotice: () => {} })
  return stackOf(onPostgresJs(client), () => client.end({ timeout: 0 }))
})

runsFromPage('drizzle.ts')
