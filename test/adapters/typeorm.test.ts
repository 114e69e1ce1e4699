import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DataSource, type EntityManager } from 'typeorm'
import { fromTypeOrm } from '../../src/adapters/typeorm.ts'
import { kind } from '../../src/index.ts'
import { count, scene } from '../support/worker.ts'
import { conforms, NO_HANDLES, type Scope, type Stack } from './conformance.ts'
import { runsFromPage } from './page.ts'

const PASS = /pass the manager that dataSource\.transaction\(async \(manager\) => …\) passes, or queryRunner\.manager/

function scopeOf(manager: EntityManager): Scope {
  return {
    tx: fromTypeOrm(manager),
    execute: (text) => manager.query(text),
    nested: (work) => manager.transaction((inner) => work(scopeOf(inner))),
  }
}

async function open(url: string): Promise<Stack> {
  const source = await new DataSource({ type: 'postgres', url, poolErrorHandler: () => {} }).initialize()
  return {
    transaction: (work) => source.transaction((manager) => work(scopeOf(manager))),
    refused: () => [
      ['the manager of the data source', () => fromTypeOrm(source.manager), PASS],
      ['the data source', () => fromTypeOrm(source as never), PASS],
      ['a query runner without a transaction', () => fromTypeOrm(source.createQueryRunner().manager), PASS],
      ...NO_HANDLES.map((each) => [String(each), () => fromTypeOrm(each), PASS] as const),
    ],
    close: () => source.destroy(),
  }
}

conforms('TypeORM', open)

test('TypeORM: the manager of a query runner works from startTransaction() to its end', async (t) => {
  const { db, lh, undo } = await scene(t)
  const source = await new DataSource({ type: 'postgres', url: db.url }).initialize()
  undo.after(() => source.destroy())
  const runner = source.createQueryRunner()
  await runner.startTransaction()
  const tx = fromTypeOrm(runner.manager)
  const enqueue = () => lh.enqueue(kind<number>('task'), 1, { tx })
  await enqueue()
  await runner.commitTransaction()
  assert.throws(() => fromTypeOrm(runner.manager), PASS)
  await assert.rejects(enqueue(), PASS)
  await runner.release()
  assert.equal(await count(db, 'from leasehold.jobs'), 1)
})

runsFromPage('typeorm.ts')
