/** One statement, repeated after a conflict if it is a transaction of its own. */
import { InvalidOptionError } from '../core/errors.ts'
import { settlingConflicts } from '../db/conflict.ts'
import { asPrinted, type Cells, type Queryable } from '../db/lane.ts'
import { isPool } from '../db/transaction.ts'
import type { Sendable } from './definition.ts'

/** The returned columns of the changed row, if one was changed. */
export async function change(db: Queryable, statement: Sendable, values: unknown[]): Promise<Cells | undefined> {
  const { rowCount, rows } = await send(db, statement, values)
  // A client that returns no rowCount would make every outcome a guess.
  if (typeof rowCount !== 'number')
    throw new InvalidOptionError('db', 'its query() returned no rowCount; pass a pool or client of pg')
  return rowCount > 0 ? ((rows?.[0] ?? []) as Cells) : undefined
}

export async function read(db: Queryable, statement: Sendable, values: unknown[]): Promise<readonly Cells[]> {
  return (await send(db, statement, values)).rows as unknown as Cells[]
}

function send(db: Queryable, statement: Sendable, values: unknown[]) {
  const query = { ...statement, values, rowMode: 'array' as const, types: asPrinted }
  return settlingConflicts(isPool(db), () => db.query(query))
}
