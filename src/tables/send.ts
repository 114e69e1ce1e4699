/** One statement, sent again when Postgres gives it up in favour of another and it stands alone. */
import { InvalidOptionError } from '../core/errors.ts'
import { settlingConflicts } from '../db/conflict.ts'
import { asPrinted, type Cells, type Queryable } from '../db/lane.ts'
import { isPool } from '../db/transaction.ts'
import type { Sendable } from './definition.ts'

/** What it returns of the row that it changed, if it changed one. */
export async function change(db: Queryable, statement: Sendable, values: unknown[]): Promise<Cells | undefined> {
  const { rowCount, rows } = await send(db, statement, values)
  // A client that does not tell would make every answer a guess.
  if (typeof rowCount !== 'number') throw new InvalidOptionError('db', 'its query() answers without a rowCount')
  return rowCount > 0 ? ((rows?.[0] ?? []) as Cells) : undefined
}

export async function read(db: Queryable, statement: Sendable, values: unknown[]): Promise<readonly Cells[]> {
  return (await send(db, statement, values)).rows as unknown as Cells[]
}

function send(db: Queryable, statement: Sendable, values: unknown[]) {
  const query = { ...statement, values, rowMode: 'array' as const, types: asPrinted }
  return settlingConflicts(isPool(db), () => db.query(query))
}
