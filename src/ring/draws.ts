// Numbers that look random and are the same in every process, in every version of Node: integers of 32 bits, and of floating
// point only + - * /, whose results ECMAScript fixes to the last bit. It leaves those of Math.log and its like to the engine.

// Chosen among some 320 for the even shares that it gives to memberships of the seats 1 to 32 (decisions/0039). No two of
// the 1024 seats start within 2048 steps of each other.
const SALT = 283

/** As a literal: a power is among the results that ECMAScript leaves to the engine. */
export const RING = 4_294_967_296

/** The numbers 0 to count - 1, shuffled. Every seat has its own order, seat 0 that of the buckets on the ring. */
export function shuffled(seat: number, count: number): Uint32Array {
  const start = startOf(seat)
  const order = new Uint32Array(count)
  for (let index = 1; index < count; index++) {
    const chosen = Math.floor((hash(start, 2 * index) * (index + 1)) / RING)
    order[index] = order[chosen]!
    order[chosen] = index
  }
  return order
}

/** Points on a ring of 2^32. A larger count keeps the points of a smaller one. */
export function points(seat: number, count: number): Uint32Array {
  const start = startOf(seat)
  const drawn = new Uint32Array(count)
  for (let index = 0; index < count; index++) drawn[index] = hash(start, index)
  return drawn
}

/**
 * Numbers between 0 and `count`, shuffled: one between 0 and 1, one between 1 and 2, and so on. With independent draws a seat
 * could draw more small numbers than another.
 */
export function evenDraws(seat: number, count: number): Float64Array {
  const start = startOf(seat)
  const draws = Float64Array.from(shuffled(seat, count))
  for (let index = 0; index < count; index++) draws[index]! += hash(start, 2 * index + 1) / RING
  return draws
}

function startOf(seat: number): number {
  return mixed(Math.imul(seat, 0x9e3779b1) ^ SALT)
}

function hash(start: number, index: number): number {
  return mixed((start + Math.imul(index, 0x9e3779b1)) | 0)
}

/** The finaliser of MurmurHash3: each bit of the input changes about half of the bits of the result. */
function mixed(value: number): number {
  let hash = value ^ (value >>> 16)
  hash = Math.imul(hash, 0x85ebca6b)
  hash ^= hash >>> 13
  hash = Math.imul(hash, 0xc2b2ae35)
  return (hash ^ (hash >>> 16)) >>> 0
}
