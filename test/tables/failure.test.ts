// After an effect has happened, only temporary errors are worth another try at recording it.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import pg from 'pg'
import { DeadlineError } from '../../src/core/errors.ts'
import { InvalidOptionError, TransactionConflictError } from '../../src/index.ts'
import { isFinal } from '../../src/tables/failure.ts'
import { suiteDatabase } from '../support/database.ts'
import { failureOf } from '../support/effects.ts'

const db = await suiteDatabase()

const coded = (code: string) => Object.assign(new Error('as the server says'), { code })

test('temporary errors are not final', () => {
  const codes = [
    '08006',
    '08P01',
    '28P01',
    '3D000',
    '40001',
    '40P01',
    '53100',
    '53300',
    '55P03',
    '57014',
    '57P01',
    '58030',
  ]
  for (const code of [...codes, 'XX000', '25006', '25P04', '26000', '42P05', 'ECONNRESET']) {
    assert.equal(isFinal(coded(code)), false, code)
  }
  const noRoom = Object.assign(coded('EMFILE'), { syscall: 'socket' })
  for (const error of [new DeadlineError('A statement', 1), new TransactionConflictError(), noRoom]) {
    assert.equal(isFinal(error), false, String(error))
  }
})

test('errors about the value, the table or the program are final', () => {
  const codes = [
    'P0001',
    '54000',
    '44000',
    '21000',
    '38000',
    '39000',
    '22001',
    '23505',
    '42703',
    '42P01',
    '0A000',
    '25P02',
  ]
  for (const code of [...codes, 'ERR_INVALID_ARG_TYPE']) assert.equal(isFinal(coded(code)), true, code)
  for (const error of [
    new TypeError('no'),
    new InvalidOptionError('set', 'no'),
    new Error('no'),
    'text',
    null,
    undefined,
  ]) {
    assert.equal(isFinal(error), true, String(error))
  }
})

test('a pool that was ended is final, and a plan that no longer fits its table is not', async () => {
  const pool = new pg.Pool({ connectionString: db.url })
  await pool.end()
  assert.equal(isFinal(await failureOf(pool.query('select 1'))), true)

  await db.pool.query('create table altered (id integer)')
  const client = await db.connect()
  const all = { name: 'all', text: 'select * from altered' }
  await client.query(all)
  await db.pool.query('alter table altered add more text')
  const error = await failureOf(client.query(all))
  assert.deepEqual([error.code, isFinal(error)], ['0A000', false])
})
