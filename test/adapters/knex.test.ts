import assert from 'node:assert/strict'
import { test } from 'node:test'
import knex, { type Knex } from 'knex'
import { fromKnex } from '../../src/adapters/knex.ts'
import { kind } from '../../src/index.ts'
import { scene } from '../support/worker.ts'
import { conforms, NO_HANDLES, type Scope, type Stack } from './conformance.ts'
import { runsFromPage } from './page.ts'

const PASS = /pass the trx that knex\.transaction\(async \(trx\) => …\) passes/

function scopeOf(trx: Knex.Transaction): Scope {
  return {
    tx: fromKnex(trx),
    execute: async (text) => trx.raw(text),
    nested: (work) => trx.transaction((inner) => work(scopeOf(inner))),
  }
}

function connect(url: string): Knex {
  // A hook as many have it, which would rename our columns.
  const postProcessResponse = () => ({ rows: 'renamed' })
  return knex({ client: 'pg', connection: url, postProcessResponse })
}

function open(url: string): Stack {
  const db = connect(url)
  return {
    transaction: (work) => db.transaction((trx) => work(scopeOf(trx))),
    refused: () => [
      ['the instance', () => fromKnex(db as never), PASS],
      ...NO_HANDLES.map((each) => [String(each), () => fromKnex(each), PASS] as const),
    ],
    close: () => db.destroy(),
  }
}

conforms('Knex', open)

test('Knex: a transaction that has ended is refused', async (t) => {
  const { db, lh, undo } = await scene(t)
  const own = connect(db.url)
  undo.after(() => own.destroy())
  const trx = await own.transaction()
  const tx = fromKnex(trx)
  await trx.commit()
  assert.throws(() => fromKnex(trx), /its transaction has ended/)
  await assert.rejects(lh.enqueue(kind<number>('task'), 1, { tx }), /its transaction has ended/)
})

runsFromPage('knex.ts')
