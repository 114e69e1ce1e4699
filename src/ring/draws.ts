// Numbers that look random and are the same in every process, in every version of Node: integers of 32 bits, and of floating
// point only + - * /, whose results IEEE 754 fixes to the last bit. Math.log and its like are not fixed.

// One of the first 300 salts: the one with the smallest largest share over many memberships of the seats 1 to 32 (decisions/0039).
const SALT = 165

/** The numbers 0 to count - 1, shuffled. Every seat has its own order, seat 0 that of the buckets on the ring. */
export function shuffled(seat: number, count: number): Uint32Array {
  const start = startOf(seat)
  const order = new Uint32Array(count)
  for (let index = 1; index < count; index++) {
    const chosen = Math.floor((hash(start, 2 * index) * (index + 1)) / 2 ** 32)
    order[index] = order[chosen]!
    order[chosen] = index
  }
  return order
}

/**
 * As many numbers from 0 up to 1, one in each of `count` equal parts of that range, shuffled. No seat draws more of the small numbers
 * than another, as happens with independent draws. That makes shares more even: see the table in decisions/0039.
 */
export function evenDraws(seat: number, count: number): Float64Array {
  const start = startOf(seat)
  const parts = shuffled(seat, count)
  const draws = new Float64Array(count)
  for (let index = 0; index < count; index++) {
    // 16 bits are enough to decide between seats, and few enough that the sum with an index below 2^16 is exact below the next.
    draws[index] = (parts[index]! + (hash(start, 2 * index + 1) >>> 16) / 2 ** 16) / count
  }
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
