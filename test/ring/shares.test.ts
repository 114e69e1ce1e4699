// How evenly the ring divides its buckets. The numbers are those of decisions/0039.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { BUCKETS, bucketOf } from '../../src/core/bucket.ts'
import { STRATEGIES, type Strategy } from '../../src/core/strategy.ts'
import { BucketSet } from '../../src/ring/bits.ts'
import { ringMap, type Seat } from '../../src/ring/map.ts'
import { seatsTo } from './seats.ts'

function sharesOf(strategy: Strategy, seats: readonly Seat[]): number[] {
  const map = ringMap(strategy, seats)
  return seats.map(({ number }) => BucketSet.ownedBy(map, number).size)
}

/** By the mean. */
function largestShare(strategy: Strategy, seats: readonly Seat[]): number {
  return (Math.max(...sharesOf(strategy, seats)) * seats.length) / BUCKETS
}

test('the largest share of the seats 1 to N is at most 1.3 times the mean, for 2 to 16 seats', (t) => {
  for (const strategy of STRATEGIES) {
    const largest = Array.from({ length: 15 }, (_, index) => largestShare(strategy, seatsTo(index + 2)))
    t.diagnostic(`${strategy}, 2 to 16 seats: ${largest.map((share) => share.toFixed(2)).join(' ')}`)
    for (const share of largest) assert.ok(share <= 1.3, `${strategy}: ${share}`)
  }
})

test('it is at most 1.3 times the mean also while one or two of the seats are free', (t) => {
  for (const strategy of STRATEGIES) {
    let largest = 0
    for (let last = 3; last <= 18; last++) {
      for (let one = 1; one <= last; one++) {
        for (let other = one; other <= last; other++) {
          const seats = seatsTo(last).filter(({ number }) => number !== one && number !== other)
          if (seats.length < 2 || seats.length > 16) continue
          largest = Math.max(largest, largestShare(strategy, seats))
        }
      }
    }
    t.diagnostic(`${strategy}: ${largest.toFixed(2)}`)
    assert.ok(largest <= 1.3, `${strategy}: ${largest}`)
  }
})

test('of 2 to 16 seats drawn from 32, fewer than 1 in 100 memberships have a share above 1.3 times the mean', (t) => {
  const drawn = fc.sample(fc.subarray(seatsTo(32), { minLength: 2, maxLength: 16 }), { seed: 39, numRuns: 1_000 })
  for (const strategy of STRATEGIES) {
    const largest = drawn.map((seats) => largestShare(strategy, seats)).sort((a, b) => a - b)
    const above = largest.filter((share) => share > 1.3).length
    t.diagnostic(`${strategy}: ${above} of 1000; p99 ${largest[990]!.toFixed(2)}, most ${largest.at(-1)!.toFixed(2)}`)
    assert.ok(above < 10 && largest.at(-1)! < 1.5)
  }
})

test('shares follow weights to within a quarter', (t) => {
  for (const weights of [
    [1, 3],
    [3, 1],
    [1, 1, 1, 3],
    [1, 2, 3, 4],
    [0.5, 1, 2, 1.5],
    [1, 3, 1, 3, 1, 3, 1, 3],
  ]) {
    const seats = weights.map((weight, index) => ({ number: index + 1, weight }))
    const sum = weights.reduce((all, weight) => all + weight, 0)
    for (const strategy of STRATEGIES) {
      const shares = sharesOf(strategy, seats)
      t.diagnostic(`${strategy} ${weights.join(':')} → ${shares.join(' ')}`)
      for (const [index, share] of shares.entries()) {
        const due = (weights[index]! / sum) * BUCKETS
        assert.ok(Math.abs(share - due) <= due / 4, `${strategy} ${weights.join(':')}: ${shares.join(' ')}`)
      }
      assert.ok(
        strategy !== 'modulo' ||
          shares.every((share, index) => Math.abs(share - (weights[index]! / sum) * BUCKETS) <= 1),
      )
    }
  }
})

test('keys that are alike are divided as well, but modulo may give all of them to one of two seats', () => {
  // The lowest bit of FNV-1a is the parity of the lowest bits of the bytes: the same for all keys of even digits.
  const keys = Array.from({ length: 10_000 }, (_, index) => `order:${index.toString(5)}`.replaceAll(/\d/g, twice))
  for (const strategy of STRATEGIES) {
    const map = ringMap(strategy, seatsTo(2))
    const first = keys.filter((key) => map[bucketOf(key)] === 1).length / keys.length
    if (strategy === 'modulo') assert.equal(Math.max(first, 1 - first), 1)
    else assert.ok(first > 0.4 && first < 0.6, `${strategy}: ${first}`)
  }
})

function twice(digit: string): string {
  return String(2 * Number(digit))
}
