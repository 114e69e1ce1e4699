/** What a way of handling is given, checked when it is made: the first message would be late, and each one after it the same. */
import { InvalidOptionError } from '../core/errors.ts'
import { checkOptions } from '../core/options.ts'
import type { Queryable } from '../db/lane.ts'
import { surviveIdleLoss } from '../db/pool-errors.ts'
import type { Arrows } from '../tables/definition.ts'
import type { StatusTable } from '../tables/status-table.ts'

/** By what it can do: a program may hold two copies of this package. */
export function checkTable(of: string, table: StatusTable<Arrows, never>): void {
  if (typeof table?.look === 'function' && typeof table.work === 'function') return
  throw new InvalidOptionError(`${of}.table`, "declare it with statusTable('name', { … })")
}

export function checkPool(of: string, pool: Queryable): void {
  if (typeof pool?.query !== 'function') {
    throw new InvalidOptionError(`${of}.pool`, 'it must be a pool of pg: new pg.Pool({ … })')
  }
  surviveIdleLoss(pool)
}

/** Of these, `needed` are functions, and `optional` are, where they are given. */
export function checkFunctions(
  of: string,
  given: object,
  needed: readonly string[],
  optional: readonly string[] = [],
  others: readonly string[] = [],
): void {
  checkOptions(of, given ?? null, [...needed, ...optional, ...others])
  const values = given as Readonly<Record<string, unknown>>
  for (const name of [...needed, ...optional]) {
    const isLeftOut = values[name] === undefined && optional.includes(name)
    if (!isLeftOut) checkFunction(`${of}.${name}`, values[name])
  }
}

export function checkFunction(option: string, value: unknown): void {
  if (typeof value === 'function') return
  throw new InvalidOptionError(option, 'it must be a function')
}

/** That this is a Leasehold, or does as one in this. */
export function checkLeasehold(of: string, leasehold: object, can: 'enqueue' | 'oncePerMessage'): void {
  if (typeof (leasehold as Readonly<Record<string, unknown>> | null)?.[can] === 'function') return
  throw new InvalidOptionError(`${of}.leasehold`, 'it must be a Leasehold: new Leasehold({ … })')
}
