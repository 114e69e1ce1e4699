/** Checks the options of handlers when they are made: at the first message it would be too late. */
import { checkFunction } from '../core/check.ts'
import { InvalidOptionError } from '../core/errors.ts'
import { checkOptions } from '../core/options.ts'
import type { Queryable } from '../db/lane.ts'
import { surviveIdleLoss } from '../db/pool-errors.ts'
import type { Inbox } from '../inbox/inbox.ts'
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

/** By its methods, for the same reason. */
export function checkInbox(of: string, inbox: Inbox): void {
  if (typeof inbox?.once === 'function' && typeof inbox.leasehold?.enqueue === 'function') return
  throw new InvalidOptionError(`${of}.inbox`, "make it of a Leasehold: new Inbox(leasehold, { source: '…' })")
}

export function checkCompare(of: string, compare: unknown): void {
  if (compare === undefined || typeof compare === 'boolean' || typeof compare === 'function') return
  throw new InvalidOptionError(`${of}.compare`, 'it must be true, false or a function of the message')
}
