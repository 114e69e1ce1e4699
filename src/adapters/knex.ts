/** `leasehold/knex`: the transaction of Knex as a Tx. */
import type { Tx } from '../db/tx.ts'
import { hasEnded, noTransaction, onePerHandle, throughPgClient } from './handle.ts'

/** The part of Knex.Transaction that is used here. */
export interface KnexTransaction {
  readonly isTransaction?: boolean
  readonly client: { acquireConnection(): Promise<unknown> }
  isCompleted(): boolean
}

/** `knex.transaction(async (trx) => leasehold.enqueue(kind, input, { tx: fromKnex(trx) }))` */
export function fromKnex(trx: KnexTransaction): Tx {
  if (trx?.isTransaction !== true || typeof trx.isCompleted !== 'function') {
    throw noTransaction('the trx that knex.transaction(async (trx) => …) passes')
  }
  refuseEnded(trx)
  return adapt(trx)
}

function refuseEnded(trx: KnexTransaction): void {
  if (trx.isCompleted()) throw hasEnded()
}

const adapt = onePerHandle((trx: KnexTransaction) =>
  throughPgClient(() => {
    refuseEnded(trx)
    return trx.client.acquireConnection() // Within a transaction, its one connection.
  }),
)
