/**
 * A prepared statement, sent without asking what its columns are.
 *
 * The driver asks with every execution, builds a description of each column from the answer, and a parser for each. That is half
 * of what a small statement costs in this process (decisions/0033). The columns of a statement do not change while it is
 * prepared, since the server refuses to run it then, so they are asked for once a connection. Cells are the server's text.
 *
 * This is the interface by which the driver's own cursors are sent (`Submittable`).
 */
import type pg from 'pg'
import type { FieldDef, QueryArrayConfig } from 'pg'
// @ts-expect-error: exported by the driver, and not declared.
import utils from 'pg/lib/utils.js'
import type { Answer } from './lane.ts'

/** A parameter as the driver sends it: text, or bytes. */
const prepareValue: (value: unknown) => unknown = utils.prepareValue

interface Connection {
  readonly stream: { cork(): void; uncork(): void }
  readonly parsedStatements: Record<string, string>
  parse(statement: { name: string; text: string }): void
  bind(values: { statement: string; values: unknown[]; valueMapper(value: unknown): unknown }): void
  describe(portal: { type: 'P'; name: '' }): void
  execute(portal: object): void
  sync(): void
}

/** The columns of the statements that were prepared on a connection. */
export type Columns = Map<string, FieldDef[]>

/** Like `client.query(config)`, for a statement that has a name, with cells as the server prints them. */
export function sendPrepared(
  client: pg.ClientBase,
  name: string,
  config: QueryArrayConfig,
  columns: Columns,
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const callback: Callback = (error, answer) => (answer === undefined ? reject(error) : resolve(answer))
    client.query(new Prepared(name, config, columns, callback))
  })
}

type Callback = (error: unknown, answer?: Answer) => void

class Prepared {
  readonly name: string
  readonly text: string
  readonly values: unknown[]
  /** The driver replaces it where its user has set a `query_timeout`. */
  callback: Callback
  readonly #columns: Columns
  readonly #rows: string[][] = []

  constructor(name: string, { text, values = [] }: QueryArrayConfig, columns: Columns, callback: Callback) {
    this.name = name
    this.text = text
    this.values = values
    this.callback = callback
    this.#columns = columns
  }

  submit(connection: Connection): void {
    const { name, text, values } = this
    connection.stream.cork()
    try {
      if (connection.parsedStatements[name] === undefined) connection.parse({ name, text })
      connection.bind({ statement: name, values, valueMapper: prepareValue })
      if (!this.#columns.has(name)) connection.describe({ type: 'P', name: '' })
      connection.execute({})
      connection.sync()
    } finally {
      connection.stream.uncork()
    }
  }

  handleRowDescription({ fields }: { fields: FieldDef[] }): void {
    this.#columns.set(this.name, fields)
  }

  handleDataRow({ fields }: { fields: string[] }): void {
    this.#rows.push(fields)
  }

  handleReadyForQuery(): void {
    let fields = this.#columns.get(this.name)
    if (fields === undefined) {
      fields = []
      this.#columns.set(this.name, fields)
    }
    this.callback(null, { rows: this.#rows, fields })
  }

  handleError(error: unknown): void {
    this.callback(error)
  }

  handleCommandComplete(): void {}

  handleEmptyQuery(): void {}
}
