import { checkMilliseconds } from '../core/check.ts'
import { InvalidOptionError } from '../core/errors.ts'

/** An array literal of numbers. The driver's own rendering quotes and escapes every element. */
export function numericArray(values: readonly (number | string)[]): string {
  return `{${values.join(',')}}`
}

/** Callers pass ids back: only a canonical decimal number may enter an array literal. */
export function checkId(option: string, id: string): string {
  const isId = typeof id === 'string' && /^[1-9]\d{0,18}$/.test(id) && (id.length < 19 || BigInt(id) < 2n ** 63n)
  if (!isId) {
    const given = typeof id === 'string' ? JSON.stringify(id) : typeof id
    throw new InvalidOptionError(option, `${given} is not an id; pass the string that enqueue() or claim() returned`)
  }
  return id
}

export function idArray(option: string, ids: readonly string[]): string {
  return numericArray(ids.map((id) => checkId(option, id)))
}

/** A lease must outlast the statement that grants it. */
export function checkLease(value: number): number {
  if (!(value >= 1)) throw new InvalidOptionError('leaseMs', 'it must be at least 1 ms')
  return checkMilliseconds('leaseMs', value)
}
