// Numbers that look random, the same for the same seed everywhere.

/** The next number, from 0 to below 1. */
export type SeededRandom = () => number

export function randomFrom(seed: string): SeededRandom {
  let state = hash(seed)
  // Mulberry32: a step by a constant, then enough stirring that neighbouring states do not resemble each other.
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

/** The same things in another order. */
export function shuffled<T>(list: readonly T[], random: SeededRandom): T[] {
  const all = [...list]
  for (let last = all.length - 1; last > 0; last--) {
    const other = Math.floor(random() * (last + 1))
    ;[all[last], all[other]] = [all[other]!, all[last]!]
  }
  return all
}

/** FNV-1a. */
function hash(text: string): number {
  let value = 0x811c9dc5
  for (const byte of Buffer.from(text)) value = Math.imul(value ^ byte, 0x01000193)
  return value
}
