import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { bucketOf } from '../../src/core/bucket.ts'
import { suiteDatabase } from '../support/database.ts'

const db = await suiteDatabase()

// A job's bucket is stored. A key that moved to another bucket would have jobs in two.
test('TypeScript and SQL put a key into the same bucket', async () => {
  const plain = [
    'order:9182',
    'user:42',
    '',
    ' ',
    '0',
    '\u007f',
    '\u0080',
    'ü',
    'u\u0308',
    '日本',
    '\u{1f4a9}',
    '\u{10ffff}',
  ]
  const hostile = [
    '\u{1f4a9}'.repeat(250),
    '"\\{},NULL\n\r\t',
    '\u0001\ufeff\uffff',
    'a\u{1f468}\u200d\u{1f469}\u200d\u{1f467}',
  ]
  const long = ['x'.repeat(1_000), `${'x'.repeat(1_048_572)}\u{1f4a9}`]
  const character = fc
    .oneof(fc.integer({ min: 1, max: 0xd7ff }), fc.integer({ min: 0xe000, max: 0x10ffff }))
    .map((code) => String.fromCodePoint(code))
  const any = fc.sample(
    fc.array(character, { maxLength: 30 }).map((list) => list.join('')),
    { seed: 1024, numRuns: 500 },
  )
  const keys = [...plain, ...hostile, ...long, ...any]
  const { rows } = await db.pool.query('select leasehold.bucket(key) as bucket from unnest($1::text[]) key', [keys])
  assert.deepEqual(
    rows.map((row) => row.bucket),
    keys.map(bucketOf),
  )
  assert.deepEqual([bucketOf('order:9182'), bucketOf('user:42')], [43, 898])
})
