/** The ids that an evaluation read, and those there now: compared as sets, by their text. */
import { InvalidOptionError } from '../core/errors.ts'

/** An id, or any value that changes with the row. `7`, `7n` and `'7'` are equal: pg returns a bigint as text. */
export type Seen = string | number | bigint

/**
 * Accepts only values with a text of their own: every object is "[object Object]", and two ids beyond 2^53 may be one
 * number, so these would compare equal by accident.
 */
export function toIds(option: string, values: unknown): ReadonlySet<string> {
  // A string is iterable too, but its letters are never meant.
  if (typeof values !== 'object' || values === null || !(Symbol.iterator in values)) {
    throw new InvalidOptionError(option, 'it must be an array of ids, such as rows.map((row) => row.id)')
  }
  const ids = new Set<string>()
  for (const value of values as Iterable<unknown>) ids.add(toId(option, value))
  return ids
}

export function areSame(seen: ReadonlySet<string>, found: ReadonlySet<string>): boolean {
  return seen.size === found.size && [...seen].every((id) => found.has(id))
}

function toId(option: string, value: unknown): string {
  if (typeof value === 'string' || typeof value === 'bigint') return String(value)
  if (typeof value !== 'number') {
    const what = value === null ? 'null' : typeof value
    throw new InvalidOptionError(option, `it holds ${what}; ids are strings, numbers or bigints`)
  }
  if (!Number.isFinite(value) || (Number.isInteger(value) && !Number.isSafeInteger(value))) {
    throw new InvalidOptionError(
      option,
      `it holds ${value}, which stands for more than one number; pass a string or a bigint`,
    )
  }
  return String(value)
}
