import { checkMilliseconds } from '../core/check.ts'
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

/** A lease has to last longer than it takes to say so. */
export function checkLease(value: number): number {
  if (!(value >= 1)) throw new InvalidOptionError('leaseMs', 'it must be at least 1 ms')
  return checkMilliseconds('leaseMs', value)
}
