/** Checks the options of handlers when they are made: at the first message it would be too late. */
import { checkFunction } from '../core/check.ts'
import { InvalidOptionError } from '../core/errors.ts'
import { checkOptions } from '../core/options.ts'
import type { Queryable } from '../db/lane.ts'
import { surviveIdleLoss } from '../db/pool-errors.ts'
import type { Arrows } from '../tables/definition.ts'
import type { StatusTable } from '../tables/status-table.ts'

/** By its methods: a program may hold two copies of this package. */
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

/** `needed` must be functions, `optional` may be missing. */
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

/** Checks that this is a Leasehold, or has the methods that are used here. */
export function checkLeasehold(of: string, leasehold: object, can: 'enqueue' | 'oncePerMessage'): void {
  if (typeof (leasehold as Readonly<Record<string, unknown>> | null)?.[can] === 'function') return
  throw new InvalidOptionError(`${of}.leasehold`, 'it must be a Leasehold: new Leasehold({ … })')
}
