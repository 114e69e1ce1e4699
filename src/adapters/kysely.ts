/** `leasehold/kysely`: the transaction of Kysely as a Tx. */
import { CompiledQuery } from 'kysely'
import type { Tx, TxFunction } from '../db/tx.ts'
import { hasEnded, noTransaction, onePerHandle } from './handle.ts'

/** The part of Kysely's Transaction and ControlledTransaction that is used here. */
export interface KyselyTransaction {
  readonly isTransaction: true
  withoutPlugins(): { executeQuery(query: never): Promise<{ readonly rows: readonly unknown[] }> }
}

/** `db.transaction().execute(async (trx) => leasehold.enqueue(kind, input, { tx: fromKysely(trx) }))` */
export function fromKysely(trx: KyselyTransaction): Tx {
  if (trx?.isTransaction !== true) throw noTransaction('the trx that db.transaction().execute(async (trx) => …) passes')
  const { isCommitted, isRolledBack } = trx as { readonly isCommitted?: boolean; readonly isRolledBack?: boolean }
  if (isCommitted || isRolledBack) throw hasEnded()
  return adapt(trx)
}

const adapt = onePerHandle((trx: KyselyTransaction): TxFunction => {
  // A plugin such as CamelCasePlugin would rename our columns.
  const plain = trx.withoutPlugins()
  return async (text, values) => {
    const query = CompiledQuery.raw(text, [...values]) as never
    try {
      return (await plain.executeQuery(query)).rows as Readonly<Record<string, unknown>>[]
    } catch (error) {
      throw /^Transaction is already /.test((error as Error).message) ? hasEnded(error) : error
    }
  }
})
