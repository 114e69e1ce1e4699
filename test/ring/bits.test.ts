import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { BUCKETS } from '../../src/core/bucket.ts'
import { BucketSet } from '../../src/ring/bits.ts'
import { suiteDatabase } from '../support/database.ts'

const db = await suiteDatabase()
const buckets = fc.uniqueArray(fc.integer({ min: 0, max: BUCKETS - 1 }), { maxLength: 200 })

function setOf(list: Iterable<number>): BucketSet {
  const set = new BucketSet()
  for (const bucket of list) set.add(bucket)
  return set
}

test('a set of buckets does what a Set does', () => {
  fc.assert(
    fc.property(buckets, buckets, buckets, (added, others, deleted) => {
      const [set, model] = [setOf(added), new Set(added)]
      for (const bucket of deleted) assert.equal(set.delete(bucket), model.delete(bucket))
      const ascending = (list: Iterable<number>) => [...list].sort((a, b) => a - b)
      assert.deepEqual([...set], ascending(model))
      assert.equal(set.size, model.size)
      for (const bucket of others) assert.equal(set.has(bucket), model.has(bucket))
      const other = setOf(others)
      assert.deepEqual([...set.minus(other)], ascending([...model].filter((bucket) => !others.includes(bucket))))
      assert.deepEqual([...set.and(other)], ascending([...model].filter((bucket) => others.includes(bucket))))
      assert.deepEqual([...set], ascending(model), 'minus() and and() leave the set as it was')
      assert.ok(set.equals(setOf(model)) && set.equals(new BucketSet(set.bytes)))
      assert.equal(set.equals(other), set.minus(other).size === 0 && other.minus(set).size === 0)
    }),
  )
})

test('all buckets, none, and those of one seat', () => {
  assert.equal(BucketSet.all().size, BUCKETS)
  assert.deepEqual([...BucketSet.all()], [...Array(BUCKETS).keys()])
  assert.equal(new BucketSet().size, 0)
  const map = Uint16Array.from({ length: BUCKETS }, (_, bucket) => (bucket % 3) + 1)
  assert.deepEqual([...BucketSet.ownedBy(map, 2)].slice(0, 4), [1, 4, 7, 10])
  assert.equal(BucketSet.ownedBy(map, 4).size, 0)
})

test('a copy of a set does not change with it', () => {
  const set = setOf([1, 2])
  const copy = new BucketSet(set.bytes)
  set.add(3)
  assert.deepEqual([...copy], [1, 2])
})

test('a bucket that does not exist is refused', () => {
  const set = new BucketSet()
  for (const bucket of [-1, BUCKETS, 0.5, Number.NaN]) {
    for (const change of [() => set.add(bucket), () => set.delete(bucket), () => set.has(bucket)]) {
      assert.throws(change, /A bucket is a whole number from 0 to 1023, not /)
    }
  }
  assert.throws(() => new BucketSet(new Uint8Array(127)), /has 128 bytes, not 127/)
})

test('Postgres reads the bytes as the same set', async () => {
  const list = [0, 1, 7, 8, 9, 500, 1016, 1023]
  const { rows } = await db.pool.query(
    'select bucket from generate_series(0, 1023) bucket where get_bit($1::bytea, bucket) = 1 order by bucket',
    [Buffer.from(setOf(list).bytes)],
  )
  assert.deepEqual(
    rows.map((row) => row.bucket),
    list,
  )
})
