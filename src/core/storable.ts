/**
 * Two doors into a jsonb column. What a caller hands us is refused when it would not come back as it went in. What happened to a
 * job (its error, result, notes) is made safe instead: recording a failure must never fail.
 */
import { describeError } from './error-description.ts'
import { encodeExactly, encodeRepaired, type StorableLimits } from './json-encoder.ts'

export type { StorableLimits } from './json-encoder.ts'

/**
 * JSON text for a jsonb column that parses back to the same value, or a `ValueNotStorableError` that names the path and says what
 * to pass instead. As with JSON, `-0` becomes 0, and an object's property that is `undefined` is left out.
 */
export function encodeInput(value: unknown, limits?: StorableLimits): string {
  return encodeExactly(value, limits)
}

/** JSON text that a jsonb column always accepts: what cannot be stored is replaced, never refused. Never throws. */
export function encodeSafely(value: unknown, limits?: StorableLimits): string {
  return encodeRepaired(value, describeError, limits)
}
