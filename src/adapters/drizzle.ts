/** `leasehold/drizzle`: the transaction of Drizzle as a Tx, on pg or on postgres.js. */
import { InvalidOptionError } from '../core/errors.ts'
import type { Tx } from '../db/tx.ts'
import { isPgClient, noTransaction } from './handle.ts'
import { fromPostgresJs, type PostgresJsTransaction } from './postgres-js.ts'

/** The part of Drizzle's PgTransaction that is used here. Its database has no rollback(). */
export interface DrizzleTransaction {
  readonly _: { readonly session: object }
  rollback(): never
}

/** `db.transaction(async (tx) => leasehold.enqueue(kind, input, { tx: fromDrizzle(tx) }))` */
export function fromDrizzle(tx: DrizzleTransaction): Tx {
  if (typeof tx?.rollback !== 'function') throw noTransaction('the tx that db.transaction(async (tx) => …) passes')
  // A statement goes to the driver as it is. Drizzle's own sql would number its parameters anew.
  const { client } = (tx._?.session ?? {}) as { readonly client?: unknown }
  if (typeof client === 'function') return fromPostgresJs(client as unknown as PostgresJsTransaction)
  if (isPgClient(client)) return client
  throw new InvalidOptionError('tx', "Drizzle's driver is not node-postgres or postgres-js; those two are supported")
}
