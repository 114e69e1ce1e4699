// The map of the ring, for any membership. decisions/0039
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { test } from 'node:test'
import fc from 'fast-check'
import { BUCKETS } from '../../src/core/bucket.ts'
import { checkStrategy, STRATEGIES, type Strategy } from '../../src/core/strategy.ts'
import { BucketSet } from '../../src/ring/bits.ts'
import { checkWeight, moved, ringMap, type Seat } from '../../src/ring/map.ts'
import { seatsTo } from './seats.ts'

const STABLE = ['consistent', 'rendezvous'] as const

const weight = fc.oneof(fc.constantFrom(0.5, 1, 1, 1, 2, 3), fc.double({ min: 0.01, max: 10, noNaN: true }))
const seat = fc.record({ number: fc.integer({ min: 1, max: 1024 }), weight })
const seats = fc.uniqueArray(seat, { minLength: 1, maxLength: 40, selector: ({ number }) => number })
/** Of equal weight: a newcomer, and 1 to 31 others. */
const equals = fc
  .uniqueArray(fc.integer({ min: 1, max: 1024 }), { minLength: 2, maxLength: 32 })
  .map((numbers) => numbers.map((number) => ({ number, weight: 1 })))

test('the same seats make the same map, whatever their order', () => {
  const shuffled = seats.chain((some) =>
    fc.tuple(fc.constant(some), fc.shuffledSubarray(some, { minLength: some.length, maxLength: some.length })),
  )
  fc.assert(
    fc.property(fc.constantFrom(...STRATEGIES), shuffled, (strategy, [one, other]) => {
      assert.deepEqual(ringMap(strategy, one), ringMap(strategy, other))
    }),
  )
})

test('every bucket has exactly one owner, and it is one of the seats', () => {
  fc.assert(
    fc.property(fc.constantFrom(...STRATEGIES), seats, (strategy, some) => {
      const map = ringMap(strategy, some)
      assert.equal(map.length, BUCKETS)
      const owned = some.map(({ number }) => BucketSet.ownedBy(map, number))
      assert.equal(
        owned.reduce((sum, { size }) => sum + size, 0),
        BUCKETS,
      )
    }),
  )
})

test('without seats no bucket has an owner, and one seat owns all of them', () => {
  for (const strategy of STRATEGIES) {
    assert.ok(ringMap(strategy, []).every((owner) => owner === 0))
    assert.ok(ringMap(strategy, [{ number: 1024, weight: 0.01 }]).every((owner) => owner === 1024))
  }
})

test('a join moves buckets only to the newcomer, and a leave only those of the leaver', () => {
  fc.assert(
    fc.property(fc.constantFrom(...STABLE), seats, (strategy, [newcomer, ...others]) => {
      const before = ringMap(strategy, others)
      const after = ringMap(strategy, [...others, newcomer!])
      const joined = moved(before, after)
      assert.equal(joined.to.get(newcomer!.number) ?? 0, joined.count)
      assert.equal(joined.count, BucketSet.ownedBy(after, newcomer!.number).size)
      assert.equal(moved(after, before).count, joined.count)
    }),
  )
})

test('a larger weight moves buckets only to its seat', () => {
  fc.assert(
    fc.property(fc.constantFrom(...STABLE), seats, weight, (strategy, [changed, ...others], more) => {
      const before = ringMap(strategy, [changed!, ...others])
      const after = ringMap(strategy, [{ number: changed!.number, weight: changed!.weight + more }, ...others])
      const { count, to } = moved(before, after)
      assert.equal(to.get(changed!.number) ?? 0, count)
    }),
  )
})

test('a join among up to 32 equal seats moves at most 2 × 1024/N buckets', () => {
  const check = (strategy: Strategy, all: readonly Seat[], newcomers: readonly Seat[]) => {
    const after = ringMap(strategy, all)
    for (const newcomer of newcomers) {
      const before = ringMap(
        strategy,
        all.filter((seat) => seat !== newcomer),
      )
      const { count } = moved(before, after)
      assert.ok(count <= (2 * BUCKETS) / all.length, `${count} with ${all.length} seats`)
    }
  }
  for (const strategy of STABLE) {
    for (let count = 2; count <= 32; count++) check(strategy, seatsTo(count), seatsTo(count))
  }
  // The largest of 162,000 such joins moved 1.75 times the mean. The seed makes the choice the same in every run.
  const property = fc.property(fc.constantFrom(...STABLE), equals, (strategy, all) => check(strategy, all, [all[0]!]))
  fc.assert(property, { seed: 39, numRuns: 200 })
})

test('a restart with the same seats moves nothing, and a seat that returns gets its buckets back', () => {
  fc.assert(
    fc.property(fc.constantFrom(...STRATEGIES), seats, (strategy, some) => {
      const before = ringMap(strategy, some)
      ringMap(strategy, some.slice(1))
      assert.deepEqual(moved(before, ringMap(strategy, structuredClone(some))), { count: 0, to: new Map() })
    }),
  )
})

test('3 → 4 seats moves about a quarter', () => {
  for (const strategy of STABLE) {
    const share = moved(ringMap(strategy, seatsTo(3)), ringMap(strategy, seatsTo(4))).count / BUCKETS
    assert.ok(share > 0.15 && share < 0.35, `${strategy}: ${share}`)
  }
})

test('modulo deals buckets to the seats in turn, and prints what a join moves', (t) => {
  const map = ringMap(
    'modulo',
    [9, 2, 5].map((number) => ({ number, weight: 0.1 })),
  )
  for (const [bucket, owner] of map.entries()) assert.equal(owner, [2, 5, 9][bucket % 3])
  for (const count of [2, 3, 4, 8, 16, 32]) {
    const [before, after] = [seatsTo(count - 1), seatsTo(count)]
    const parts = STRATEGIES.map((strategy) => {
      const join = moved(ringMap(strategy, before), ringMap(strategy, after))
      return `${strategy} ${((100 * join.count) / BUCKETS).toFixed(1)} %`
    })
    t.diagnostic(`a join as seat ${count} moves: ${parts.join(', ')}`)
  }
})

test('moved counts the buckets that changed hands by their new owner; 0 has lost its owner', () => {
  const before = Uint16Array.from([1, 1, 2, 2, 3])
  assert.deepEqual(moved(before, Uint16Array.from([1, 2, 2, 0, 2])), {
    count: 3,
    to: new Map([
      [2, 2],
      [0, 1],
    ]),
  })
})

// A change here moves buckets while old and new workers run side by side, and both would claim them. See decisions/0039 first.
test('the maps never change', () => {
  const weighted = [1, 3, 0.5, 2.75].map((weight, index) => ({ number: 7 * index + 2, weight }))
  const memberships = [seatsTo(1), seatsTo(3), seatsTo(16), seatsTo(1024), weighted]
  const found = Object.fromEntries(
    STRATEGIES.map((strategy) => [strategy, memberships.map((some) => fingerprint(ringMap(strategy, some)))]),
  )
  assert.deepEqual(found, {
    consistent: ['4a2de9a8dd4b', '7f2d135df8df', '4c342a314a86', 'c32c79be7910', 'ed9d4d0deaf6'],
    rendezvous: ['4a2de9a8dd4b', 'bc3a01d71c66', '555329bb23ae', '35e02af345dd', '3973e4d2e18b'],
    modulo: ['4a2de9a8dd4b', 'fea2a0e9543c', '53d1b78ff4af', '782118833048', '8e1f4cbf320f'],
  })
})

function fingerprint(map: Uint16Array): string {
  const bytes = Buffer.alloc(2 * map.length)
  for (const [bucket, owner] of map.entries()) bytes.writeUInt16LE(owner, 2 * bucket)
  return createHash('sha256').update(bytes).digest('hex').slice(0, 12)
}

test('the ring uses no arithmetic that engines may round differently', () => {
  const folder = new URL('../../src/ring/', import.meta.url)
  const code = readdirSync(folder)
    .map((file) => readFileSync(new URL(file, folder), 'utf8'))
    .join('\n')
    .replaceAll(/\/\*[\s\S]*?\*\/|\/\/.*/g, '')
  const used = new Set(code.match(/\bMath\.\w+|\*\*/g))
  assert.deepEqual([...used].sort(), ['Math.floor', 'Math.imul', 'Math.max', 'Math.round'])
})

test('a weight that cannot be used is refused, with what to write', () => {
  for (const bad of [
    0,
    -0,
    -1,
    0.0099,
    Number.NaN,
    Number.POSITIVE_INFINITY,
    Number.NEGATIVE_INFINITY,
    100.5,
    '1',
    null,
    1n,
  ]) {
    const value = bad as number
    const refused = {
      code: 'INVALID_OPTION',
      message: /^The option \S+ cannot be used: it must be a number from 0.01 to 100/,
    }
    assert.throws(() => checkWeight('worker.weight', value), { ...refused, option: 'worker.weight' })
    assert.throws(() => ringMap('consistent', [{ number: 1, weight: value }]), { ...refused, option: 'seats.weight' })
  }
  assert.throws(() => checkWeight('worker.weight', Number.NaN), /from 0.01 to 100, not NaN\.$/)
  for (const good of [0.01, 0.5, 1, 100]) {
    assert.equal(checkWeight('worker.weight', good), good)
    for (const strategy of STRATEGIES) ringMap(strategy, [...seatsTo(2), { number: 3, weight: good }])
  }
})

test('a strategy that does not exist is refused, with the likely one or all of them', () => {
  const option = 'queue("mail").ring'
  for (const strategy of STRATEGIES) assert.equal(checkStrategy(option, strategy), strategy)
  const refused: [unknown, string][] = [
    ['consistant', 'there is no strategy "consistant"; did you mean consistent?'],
    ['Modulo', 'there is no strategy "Modulo"; did you mean modulo?'],
    ['random', 'there is no strategy "random"; known are consistent, rendezvous, modulo.'],
    ['', 'there is no strategy ""; known are consistent, rendezvous, modulo.'],
    [true, 'it must be one of consistent, rendezvous, modulo.'],
    [7, 'it must be one of consistent, rendezvous, modulo, not 7.'],
  ]
  for (const [value, message] of refused) {
    const expected = { code: 'INVALID_OPTION', option, message: `The option ${option} cannot be used: ${message}` }
    assert.throws(() => checkStrategy(option, value), expected)
  }
  assert.throws(() => ringMap('ketama' as Strategy, []), { code: 'INVALID_OPTION', option: 'strategy' })
})

test('a seat that is listed twice or has an impossible number is refused', () => {
  for (const strategy of STRATEGIES) {
    assert.throws(() => ringMap(strategy, [...seatsTo(4), { number: 3, weight: 2 }]), {
      code: 'INVALID_OPTION',
      option: 'seats',
      message: /seat 3 is listed twice/,
    })
    for (const number of [0, -1, 1.5, 1025, Number.NaN, '7' as unknown as number]) {
      const refused = { code: 'INVALID_OPTION', option: 'seats.number' }
      assert.throws(() => ringMap(strategy, [...seatsTo(4), { number, weight: 1 }]), refused)
    }
  }
})
