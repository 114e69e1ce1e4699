import { CENTURY_MS, notThis } from './duration.ts'
import { InvalidOptionError } from './errors.ts'

/** Text that becomes a name or a key: bounded, and without characters that Postgres rejects or changes. */
export function checkText(option: string, value: string, maxBytes: number): string {
  if (typeof value !== 'string' || value === '') {
    throw new InvalidOptionError(option, `it must be a non-empty string${notThis(value)}`)
  }
  if (Buffer.byteLength(value) > maxBytes) throw new InvalidOptionError(option, `it is longer than ${maxBytes} bytes`)
  if (value.includes('\0') || !value.isWellFormed()) {
    throw new InvalidOptionError(option, 'it holds a NUL or half of a surrogate pair')
  }
  return value
}

export function checkInteger(option: string, value: number, from: number, to: number): number {
  if (!Number.isInteger(value) || value < from || value > to) {
    throw new InvalidOptionError(option, `it must be a whole number from ${from} to ${to}${notThis(value)}`)
  }
  return value
}

export function checkFunction<F>(option: string, value: F): F {
  if (typeof value !== 'function') throw new InvalidOptionError(option, 'it must be a function')
  return value
}

export function checkMilliseconds(option: string, value: number): number {
  if (!(value >= 0 && value <= CENTURY_MS)) {
    throw new InvalidOptionError(option, `it must be a number of milliseconds, 0 or more${notThis(value)}`)
  }
  return value
}

export function checkDate(option: string, value: Date): string {
  const time = value instanceof Date ? value.getTime() : Number.NaN
  // Years that Postgres and ISO 8601 print alike.
  if (!(time >= 0 && time < 253_402_300_800_000)) {
    throw new InvalidOptionError(option, 'it must be a valid Date between 1970 and 9999')
  }
  return value.toISOString()
}
