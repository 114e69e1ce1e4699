/** `leasehold/postgres-js`: the transaction of postgres.js as a Tx. */
import type { Tx, TxFunction } from '../db/tx.ts'
import { noTransaction, onePerHandle } from './handle.ts'

interface Column {
  readonly name: string
}

type RawRows = readonly (readonly (Uint8Array | null)[])[] & { readonly columns: readonly Column[] }

/** The part of postgres.js's TransactionSql that is used here. */
export interface PostgresJsTransaction {
  typed(value: never, type: number): unknown
  unsafe(text: string, values: never[], options: { prepare: boolean }): { raw(): PromiseLike<unknown> }
  savepoint: unknown
}

/** The type of a literal. Postgres infers the parameter's own; postgres.js sends the text as it is. */
const UNKNOWN = 705

/** `sql.begin(async (sql) => leasehold.enqueue(kind, input, { tx: fromPostgresJs(sql) }))` */
export function fromPostgresJs(sql: PostgresJsTransaction): Tx {
  if (typeof sql !== 'function' || typeof (sql as Partial<PostgresJsTransaction>).savepoint !== 'function') {
    throw noTransaction('the sql that sql.begin(async (sql) => …) passes')
  }
  return adapt(sql)
}

const adapt = onePerHandle((sql: PostgresJsTransaction): TxFunction => {
  return async (text, values) => {
    // A serializer would encode JSON text once more. A number needs none.
    const typed = values.map((value) => (value === null ? null : sql.typed(value as never, UNKNOWN)))
    const rows = (await sql.unsafe(text, typed as never[], { prepare: true }).raw()) as RawRows
    const names = rows.columns?.map(({ name }) => asInSql(name)) ?? []
    return rows.map((cells) => Object.fromEntries(cells.map((cell, i) => [names[i], cell && textOf(cell)])))
  }
})

function textOf(cell: Uint8Array): string {
  return Buffer.from(cell.buffer, cell.byteOffset, cell.byteLength).toString('utf8')
}

/** Undoes postgres.camel, pascal and kebab. All of our columns are in snake case. */
function asInSql(name: string): string {
  return name
    .replace(/(?<=.)[A-Z]/g, '_$&')
    .replaceAll('-', '_')
    .toLowerCase()
}
