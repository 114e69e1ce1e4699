/**
 * The caller's open transaction: the pg client on which BEGIN was sent, or a function that runs a statement in it. Another
 * driver or an ORM has to provide only the function.
 */
import type { QueryArrayConfig, QueryArrayResult } from 'pg'
import { InvalidOptionError } from '../core/errors.ts'
import type { Queryable } from './lane.ts'
import { isPool } from './transaction.ts'

/** Runs one statement with its parameters ($1, $2, …) and returns its rows by column name. */
export type TxFunction = (
  text: string,
  values: readonly (string | number | null)[],
) => Promise<readonly Readonly<Record<string, unknown>>[]>

export type Tx = Queryable | TxFunction

/** The members of pg's client that show whether BEGIN was sent. */
interface Client {
  readonly readyForQuery?: boolean
  getTransactionStatus?(): string | null
}

/** Refuses a value that is certainly no open transaction. */
export function checkTx<Given extends Tx>(tx: Given): Given {
  if (typeof tx === 'function') return tx
  if (typeof tx !== 'object' || tx === null || typeof tx.query !== 'function') {
    throw new InvalidOptionError(
      'tx',
      'it must be the pg client of an open transaction, or a function (text, values) => rows that runs a statement in yours',
    )
  }
  // A pool would use any connection, and none of them has the transaction.
  if (isPool(tx)) throw new InvalidOptionError('tx', 'it is a pool; pass the client on which you sent BEGIN')
  const client = tx as Client
  // While a statement is in flight, which may be BEGIN, the status is that of the one before.
  if (client.readyForQuery !== true) return tx
  const status = client.getTransactionStatus?.()
  if (status === 'I')
    throw new InvalidOptionError('tx', 'no transaction is open on it; send BEGIN, or use withTransaction()')
  if (status === 'E') throw hasFailed()
  return tx
}

/** Refuses a client on which BEGIN was sent: the work takes long, and a rollback would undo its claim. */
export function refuseTransaction(option: string, db: Queryable): void {
  const client = db as Client
  const isOpen = client.readyForQuery === true && /^[TE]$/.test(client.getTransactionStatus?.() ?? '')
  if (isOpen) throw new InvalidOptionError(option, 'a transaction is open on it; pass the pool')
}

export function hasFailed(cause?: unknown): InvalidOptionError {
  const what = 'a statement in it has failed, so it can only be rolled back; let that error throw, or use a savepoint'
  return new InvalidOptionError('tx', what, { cause })
}

export function queryableOf(tx: Tx): Queryable {
  return typeof tx === 'function' ? new FunctionQueryable(tx) : tx
}

/** Returns rows as the server prints them, regardless of the driver's type parsers. */
class FunctionQueryable implements Queryable {
  readonly #run: TxFunction

  constructor(run: TxFunction) {
    this.#run = run
  }

  async query({ text, values = [] }: QueryArrayConfig): Promise<QueryArrayResult> {
    const rows = await this.#run(text, values.map(parameter))
    if (!Array.isArray(rows)) throw new InvalidOptionError('tx', 'the function must return a list of rows')
    const names = Object.keys(rows[0] ?? {})
    const cells = rows.map((row) => names.map((name) => printed(row[name])))
    return {
      rows: cells,
      fields: names.map((name) => ({ name })),
      rowCount: rows.length,
    } as unknown as QueryArrayResult
  }
}

/** Lists as Postgres array literals: drivers render arrays differently. */
function parameter(value: unknown): string | number | null {
  if (value === null || value === undefined) return null
  if (Array.isArray(value)) return `{${value.map(element).join(',')}}`
  return typeof value === 'number' ? value : String(value)
}

function element(value: unknown): string {
  return value === null || value === undefined ? 'null' : `"${String(value).replace(/["\\]/g, '\\$&')}"`
}

function printed(value: unknown): string | null {
  if (value === null || value === undefined) return null
  if (typeof value === 'boolean') return value ? 't' : 'f'
  if (Array.isArray(value)) return `{${value.map((each) => printed(each) ?? 'null').join(',')}}`
  if (value instanceof Date) return value.toISOString()
  return typeof value === 'object' ? JSON.stringify(value) : String(value)
}
