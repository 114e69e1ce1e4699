import { createHash } from 'node:crypto'

/** A UUID derived from its parts: the same parts give the same UUID in every process. */
export function effectKeyOf(...parts: readonly string[]): string {
  // As JSON, so that two different lists of parts never hash the same text.
  const hash = createHash('sha256').update(JSON.stringify(parts)).digest()
  hash[6] = (hash[6]! & 0x0f) | 0x80 // Version 8: vendor-specific.
  hash[8] = (hash[8]! & 0x3f) | 0x80
  const hex = hash.toString('hex', 0, 16)
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-')
}
