// Which seat owns which bucket: a function of the seats alone, so that all workers compute the same map. decisions/0039
import { BUCKETS } from '../core/bucket.ts'
import { checkInteger } from '../core/check.ts'
import { notThis } from '../core/duration.ts'
import { InvalidOptionError } from '../core/errors.ts'
import { checkStrategy, type Strategy } from '../core/strategy.ts'
import { evenDraws, points, RING, shuffled } from './draws.ts'

/** A place in the ring that a worker holds. */
export interface Seat {
  /** 1 to 1024. */
  readonly number: number
  /** 0.01 to 100. A seat of weight 3 owns about three times as many buckets as one of weight 1. */
  readonly weight: number
}

export const MAX_SEAT = 1024
/** Beside a seat of weight 1 such a seat owns about ten buckets. */
const MIN_WEIGHT = 0.01
const MAX_WEIGHT = 100

/** Points on the ring of a seat of weight 1. With fewer the shares are less even, with more they are no better (decisions/0039). */
const POINTS = 256

/** Each bucket has a place of this width on the ring of 2^32. */
const PLACE_WIDTH = RING / BUCKETS

/** Where on the ring a bucket is. Neighbouring buckets are not neighbours there: similar keys may have neighbouring buckets. */
const PLACES = shuffled(0, BUCKETS)

/**
 * The costs at which a seat of weight 1 would take its buckets, from the cheapest to the dearest: the expected values of 1024
 * exponential draws in order. So no logarithm is needed, which two versions of Node might round differently.
 */
const COSTS = expectedCosts()

export function checkWeight(option: string, value: number): number {
  if (typeof value !== 'number' || !(value >= MIN_WEIGHT && value <= MAX_WEIGHT)) {
    throw new InvalidOptionError(option, `it must be a number from ${MIN_WEIGHT} to ${MAX_WEIGHT}${notThis(value)}`)
  }
  return value
}

/**
 * The owner of each of the 1024 buckets: the number of its seat. The same in every process, whatever the order of the seats.
 * Without seats all are 0: no owner.
 *
 * - consistent: the seat of the next of many points on a ring. A join moves buckets only to the newcomer, a leave only those of
 *   the leaver.
 * - rendezvous: the seat of the lowest cost for this bucket. It moves as few.
 * - modulo: the seats in turn. The most even, but a join or leave moves most buckets.
 */
export function ringMap(strategy: Strategy, seats: readonly Seat[]): Uint16Array {
  checkStrategy('strategy', strategy)
  const sorted = checkSeats(seats)
  if (sorted.length === 0) return new Uint16Array(BUCKETS)
  if (strategy === 'modulo') return modulo(sorted)
  return strategy === 'rendezvous' ? rendezvous(sorted) : consistent(sorted)
}

/** By number: wherever two seats are level, the lower number wins. */
function checkSeats(seats: readonly Seat[]): readonly Seat[] {
  const sorted = [...seats].sort((a, b) => a.number - b.number)
  for (const [index, { number, weight }] of sorted.entries()) {
    checkInteger('seats.number', number, 1, MAX_SEAT)
    checkWeight('seats.weight', weight)
    if (sorted[index - 1]?.number === number) {
      throw new InvalidOptionError('seats', `seat ${number} is listed twice; give each worker a number of its own`)
    }
  }
  return sorted
}

/** A bucket belongs to the seat of the first point at or after its place, around the ring. */
function consistent(seats: readonly Seat[]): Uint16Array {
  const owners = new Uint16Array(BUCKETS)
  const nearest = new Float64Array(BUCKETS).fill(Number.POSITIVE_INFINITY)
  for (const { number, weight } of seats) {
    for (const point of points(number, Math.max(1, Math.round(weight * POINTS)))) {
      const place = Math.floor(point / PLACE_WIDTH)
      if (point < nearest[place]!) {
        nearest[place] = point
        owners[place] = number
      }
    }
  }
  // Places without a point belong to the owner of the next place. The second lap is for those behind the last point.
  let next = 0
  for (let step = 2 * BUCKETS - 1; step >= 0; step--) {
    const place = step % BUCKETS
    if (owners[place] === 0) owners[place] = next
    else next = owners[place]!
  }
  return Uint16Array.from(PLACES, (place) => owners[place]!)
}

/** A bucket belongs to the seat with the lowest cost by weight. */
function rendezvous(seats: readonly Seat[]): Uint16Array {
  const owners = new Uint16Array(BUCKETS)
  const lowest = new Float64Array(BUCKETS).fill(Number.POSITIVE_INFINITY)
  for (const { number, weight } of seats) {
    const draws = evenDraws(number, BUCKETS)
    for (let bucket = 0; bucket < BUCKETS; bucket++) {
      const rung = draws[bucket]!
      const below = Math.floor(rung)
      const cost = (COSTS[below]! + (rung - below) * (COSTS[below + 1]! - COSTS[below]!)) / weight
      if (cost < lowest[bucket]!) {
        lowest[bucket] = cost
        owners[bucket] = number
      }
    }
  }
  return owners
}

function expectedCosts(): Float64Array {
  const costs = new Float64Array(BUCKETS + 1)
  for (let rung = 0; rung < BUCKETS; rung++) costs[rung + 1] = costs[rung]! + 1 / (BUCKETS - rung)
  return costs
}

/**
 * With equal weights bucket % N. Otherwise each bucket goes to the seat that has the fewest for its weight (Sainte-Laguë's rule for
 * seats in a parliament), so that shares are right to about one bucket.
 */
function modulo(seats: readonly Seat[]): Uint16Array {
  const owners = new Uint16Array(BUCKETS)
  const due = Float64Array.from(seats, ({ weight }) => 0.5 / weight)
  const dealt = new Uint16Array(seats.length)
  for (let bucket = 0; bucket < BUCKETS; bucket++) {
    let first = 0
    for (let index = 1; index < seats.length; index++) if (due[index]! < due[first]!) first = index
    const { number, weight } = seats[first]!
    owners[bucket] = number
    due[first] = (++dealt[first]! + 0.5) / weight
  }
  return owners
}

/** The difference between two maps. */
export interface Moved {
  /** Buckets that have another owner. */
  readonly count: number
  /** How many of them each seat gained. Those that have no owner any more are under 0. */
  readonly to: ReadonlyMap<number, number>
}

export function moved(before: Uint16Array, after: Uint16Array): Moved {
  const to = new Map<number, number>()
  let count = 0
  for (const [bucket, owner] of after.entries()) {
    if (before[bucket] === owner) continue
    count++
    to.set(owner, (to.get(owner) ?? 0) + 1)
  }
  return { count, to }
}
