import { createHash } from 'node:crypto'
import { InvalidOptionError } from '../core/errors.ts'

/** 0 to 100, or a function that is called for each write. */
export type Rollout = number | (() => number)

/**
 * Whether a write is guarded yet. Decided by a hash of the site and the whole list of keys, so that two writers with the
 * same keys decide alike, and a higher percentage only adds keys.
 */
export function isGuarded(site: string, sortedKeys: readonly string[], rollout: Rollout = 100): boolean {
  const percent = typeof rollout === 'function' ? rollout() : rollout
  if (typeof percent !== 'number' || !(percent >= 0 && percent <= 100)) {
    throw new InvalidOptionError('rollout', 'it must be a percentage from 0 to 100, or a function that returns one')
  }
  return placeOf(site, sortedKeys) < percent
}

/** From 0 to just below 100, evenly spread. */
function placeOf(site: string, sortedKeys: readonly string[]): number {
  const digest = createHash('sha256')
    .update(JSON.stringify([site, ...sortedKeys]))
    .digest()
  return (digest.readUIntBE(0, 6) / 2 ** 48) * 100
}
