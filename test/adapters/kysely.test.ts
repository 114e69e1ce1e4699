import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  CamelCasePlugin,
  CompiledQuery,
  type ControlledTransaction,
  Kysely,
  PostgresDialect,
  type Transaction,
} from 'kysely'
import pg from 'pg'
import { fromKysely } from '../../src/adapters/kysely.ts'
import { kind } from '../../src/index.ts'
import { codeOf, scene } from '../support/worker.ts'
import { conforms, NO_HANDLES, type Scope, type Stack } from './conformance.ts'
import { runsFromPage } from './page.ts'

const PASS = /pass the trx that db\.transaction\(\)\.execute\(async \(trx\) => …\) passes/

interface Database {
  note: { text: string }
}

function scopeOf(trx: Transaction<Database>): Scope {
  return { tx: fromKysely(trx), execute: (text) => trx.executeQuery(CompiledQuery.raw(text)) }
}

function controlledScope(trx: ControlledTransaction<Database, string[]>, depth = 0): Scope {
  return {
    ...scopeOf(trx),
    nested: async (work) => {
      const inner = await trx.savepoint(`inner_${depth}`).execute()
      try {
        const result = await work(controlledScope(inner as never, depth + 1))
        await inner.releaseSavepoint(`inner_${depth}` as never).execute()
        return result
      } catch (error) {
        await inner.rollbackToSavepoint(`inner_${depth}` as never).execute()
        throw error
      }
    },
  }
}

function connect(url: string): Kysely<Database> {
  const pool = new pg.Pool({ connectionString: url })
  pool.on('error', () => {})
  return new Kysely<Database>({ dialect: new PostgresDialect({ pool }), plugins: [new CamelCasePlugin()] })
}

function stackOf(db: Kysely<Database>, transaction: Stack['transaction']): Stack {
  return {
    transaction,
    refused: () => [
      ['the database', () => fromKysely(db as never), PASS],
      ...NO_HANDLES.map((each) => [String(each), () => fromKysely(each), PASS] as const),
    ],
    close: () => db.destroy(),
  }
}

conforms('Kysely', (url) => {
  const db = connect(url)
  return stackOf(db, (work) => db.transaction().execute((trx) => work(scopeOf(trx))))
})

conforms('Kysely with startTransaction', (url) => {
  const db = connect(url)
  return stackOf(db, async (work) => {
    const trx = await db.startTransaction().execute()
    try {
      const result = await work(controlledScope(trx as never))
      await trx.commit().execute()
      return result
    } catch (error) {
      await trx.rollback().execute()
      throw error
    }
  })
})

test('Kysely: a transaction that has ended is refused', async (t) => {
  const { db, lh, undo } = await scene(t)
  const kysely = connect(db.url)
  undo.after(() => kysely.destroy())
  const ended = await kysely.transaction().execute(async (trx) => fromKysely(trx))
  const enqueue = () => lh.enqueue(kind<number>('task'), 1, { tx: ended })
  assert.equal(await codeOf(enqueue), 'INVALID_OPTION')
  const trx = await kysely.startTransaction().execute()
  await trx.commit().execute()
  assert.throws(() => fromKysely(trx), /its transaction has ended/)
})

runsFromPage('kysely.ts')
