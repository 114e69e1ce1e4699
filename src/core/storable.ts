/**
 * Two ways into a jsonb column. A value from a caller is refused if it would return changed. A record about a job (its
 * error, result, notes) is repaired instead: recording a failure must never fail.
 */
import { describeError } from './error-description.ts'
import { encodeExactly, encodeRepaired, type StorableLimits } from './json-encoder.ts'

export { type StorableLimits, truncatedAt } from './json-encoder.ts'

/**
 * JSON text for a jsonb column that parses back to the same value, or a `ValueNotStorableError` with the path and what to
 * pass instead. As with JSON, `-0` becomes 0, and a property that is `undefined` is dropped.
 */
export function encodeInput(value: unknown, limits?: StorableLimits): string {
  return encodeExactly(value, limits)
}

/** JSON text that a jsonb column always accepts: replaces values that cannot be stored. Never throws. */
export function encodeSafely(value: unknown, limits?: StorableLimits): string {
  return encodeRepaired(value, describeError, limits)
}
