import { InvalidOptionError } from '../core/errors.ts'

/** A numeric array as Postgres reads it. The driver's own rendering quotes and escapes every element. */
export function numericArray(values: readonly (number | string)[]): string {
  return `{${values.join(',')}}`
}

/** Ids come back from callers: one that is not a number, written in the one way, must not reach an array's text. */
export function checkId(option: string, id: string): string {
  const isId = typeof id === 'string' && /^[1-9]\d{0,18}$/.test(id) && (id.length < 19 || BigInt(id) < 2n ** 63n)
  if (!isId) throw new InvalidOptionError(option, `${JSON.stringify(id)} is not an id`)
  return id
}

export function idArray(option: string, ids: readonly string[]): string {
  return numericArray(ids.map((id) => checkId(option, id)))
}

/** Text that becomes a name or a key: bounded, and free of what Postgres refuses or changes. */
export function checkText(option: string, value: string, maxBytes: number): string {
  if (typeof value !== 'string' || value === '') throw new InvalidOptionError(option, 'it must be a non-empty string')
  if (Buffer.byteLength(value) > maxBytes) throw new InvalidOptionError(option, `it is longer than ${maxBytes} bytes`)
  if (value.includes('\0') || !value.isWellFormed()) {
    throw new InvalidOptionError(option, 'it holds a NUL or half of a surrogate pair')
  }
  return value
}

export function checkInteger(option: string, value: number, from: number, to: number): number {
  if (!Number.isInteger(value) || value < from || value > to) {
    throw new InvalidOptionError(option, `it must be a whole number from ${from} to ${to}`)
  }
  return value
}

/** What is longer is a mistake, and overflows somewhere. */
export const CENTURY_MS = 100 * 365 * 86_400_000

export function checkMilliseconds(option: string, value: number): number {
  if (!(value >= 0 && value <= CENTURY_MS)) {
    throw new InvalidOptionError(option, 'it must be a number of milliseconds, 0 or more')
  }
  return value
}

/** A lease has to last longer than it takes to say so. */
export function checkLease(value: number): number {
  if (!(value >= 1)) throw new InvalidOptionError('leaseMs', 'it must be at least 1 ms')
  return checkMilliseconds('leaseMs', value)
}

export function checkDate(option: string, value: Date): string {
  const time = value instanceof Date ? value.getTime() : Number.NaN
  // Years that Postgres and ISO 8601 print alike.
  if (!(time >= 0 && time < 253_402_300_800_000)) {
    throw new InvalidOptionError(option, 'it must be a valid Date between 1970 and 9999')
  }
  return value.toISOString()
}
