import { InvalidOptionError } from '../core/errors.ts'

/** A numeric array as Postgres reads it. The driver's own rendering quotes and escapes every element. */
export function numericArray(values: readonly (number | string)[]): string {
  return `{${values.join(',')}}`
}

/** Ids come back from callers: one that is not a number must not become part of an array's text. */
export function idArray(option: string, ids: readonly string[]): string {
  for (const id of ids) {
    if (!/^\d{1,19}$/.test(id)) throw new InvalidOptionError(option, `${JSON.stringify(id)} is not an id`)
  }
  return numericArray(ids)
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

/** At most a century: what is longer is a mistake, and overflows somewhere. */
export function checkMilliseconds(option: string, value: number): number {
  if (!(value >= 0 && value <= 100 * 365 * 86_400_000)) {
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
  const time = value.getTime()
  // Years that Postgres and ISO 8601 print alike.
  if (!(time >= 0 && time < 253_402_300_800_000)) {
    throw new InvalidOptionError(option, 'it must be a valid Date between 1970 and 9999')
  }
  return value.toISOString()
}
