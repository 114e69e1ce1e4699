import type { QueryArrayConfig, QueryArrayResult } from 'pg'
import { SchemaError } from '../core/errors.ts'
import { checkTx, hasFailed, queryableOf, type Tx } from './tx.ts'

export type Answer = Pick<QueryArrayResult, 'rows' | 'fields'> & Partial<Pick<QueryArrayResult, 'rowCount'>>

/** Anything that runs a query: a pool, a client, the caller's open transaction. */
export interface Queryable {
  query(config: QueryArrayConfig): Promise<Answer>
}

export interface LaneOptions {
  /** Where our tables live. Default: leasehold. */
  readonly schema?: string
  /** Named statements are planned once per connection. PgBouncer in transaction mode needs false. Default: true. */
  readonly prepare?: boolean
}

/** A row by column name, as text from the server. The caller knows the types and parses. */
export type Row<Column extends string = string> = Readonly<Record<Column, string | null>>

/** A row of a statement on the user's own tables, by position. */
export type Cells = readonly (string | null)[]

/** Stricter than Postgres, which folds and truncates names. The name is also quoted, for reserved words. */
export function quoteSchema(schema: string): string {
  if (!/^[a-z_][a-z0-9_]{0,31}$/.test(schema) || schema.startsWith('pg_') || schema === 'information_schema') {
    throw new SchemaError(
      `${JSON.stringify(String(schema).slice(0, 80))} cannot be used as a schema name: 1 to 32 of a-z, 0-9 and _, not starting with a digit or "pg_".`,
    )
  }
  return `"${schema}"`
}

/** SQL is written for the schema `leasehold`, so that it can be pasted into psql; only the schema is replaced. */
export function renderSchema(sql: string, quotedSchema: string): string {
  return sql.replaceAll('leasehold.', `${quotedSchema}.`)
}

/** Returns the server's own text, regardless of the caller's type parsers. */
export const asPrinted = { getTypeParser: () => (value: string) => value } as unknown as NonNullable<
  QueryArrayConfig['types']
>

/**
 * One schema reached through one connection or pool. No statement spans two lanes.
 * Statements are constants; their name is their first line, `-- job.claim`.
 */
export class Lane {
  readonly schema: string
  /** Each statement is a transaction of its own. */
  readonly standsAlone: boolean
  readonly #db: Queryable
  readonly #prepare: boolean
  readonly #quoted: string
  readonly #rendered: Map<string, Rendered>
  /** The lane that it is within, or this one. */
  readonly outermost: Lane

  constructor(db: Queryable, options: LaneOptions = {}, outermost?: Lane) {
    this.standsAlone = outermost === undefined
    this.outermost = outermost ?? this
    this.schema = options.schema ?? 'leasehold'
    this.#quoted = quoteSchema(this.schema)
    this.#db = db
    this.#prepare = options.prepare ?? true
    this.#rendered = outermost === undefined ? new Map() : outermost.#rendered
  }

  /** The same lane inside the caller's transaction. */
  within(tx: Tx): Lane {
    return new Lane(queryableOf(checkTx(tx)), { schema: this.schema, prepare: this.#prepare }, this.outermost)
  }

  async run<Column extends string>(statement: string, values: readonly unknown[]): Promise<readonly Row<Column>[]> {
    const rendered = this.#rendered.get(statement) ?? this.#render(statement)
    const { text, name } = rendered.config
    const query: QueryArrayConfig = { text, values: values as unknown[], rowMode: 'array', types: asPrinted }
    if (name !== undefined) query.name = name
    const { rows, fields } = await this.#db.query(query).catch((error) => this.#explain(error))
    if (rows.length === 0) return []
    if (rendered.shape?.fields !== fields && !hasColumns(rendered.shape, fields)) rendered.shape = shapeOf(fields)
    const { NamedRow } = rendered.shape!
    return rows.map((cells) => new NamedRow(cells as unknown as Cells) as unknown as Row<Column>)
  }

  #render(statement: string): Rendered {
    const text = renderSchema(statement, this.#quoted)
    const name = /^-- (\S+)/.exec(statement)?.[1]
    if (name === undefined) throw new TypeError('a statement starts with its name')
    const rendered = { config: this.#prepare ? { text, name: `${this.schema}/${name}` } : { text }, shape: undefined }
    this.#rendered.set(statement, rendered)
    return rendered
  }

  /** A missing relation or function means a missing migration: our statements name only our own. */
  #explain(error: unknown): never {
    if (!this.standsAlone && (error as { code?: unknown } | null)?.code === '25P02') throw hasFailed(error)
    const isMissing = ['42P01', '3F000', '42883', '42703'].includes(String((error as { code?: unknown } | null)?.code))
    if (!isMissing) throw error
    const what = `Schema "${this.schema}" is missing here, or is too old.`
    throw new SchemaError(`${what} Call migrate(), or run migrationSql(), first.`, { cause: error })
  }
}

interface Rendered {
  readonly config: { readonly text: string; readonly name?: string }
  /** The shape of its rows; undefined until it has returned some. */
  shape: Shape | undefined
}

type Fields = readonly { readonly name: string }[]

interface Shape {
  readonly fields: Fields
  readonly NamedRow: new (cells: Cells) => object
}

const CELLS = Symbol('cells')

/** Getters over the driver's array: names cost nothing until they are read. */
function shapeOf(fields: Fields): Shape {
  class NamedRow {
    readonly [CELLS]: Cells
    constructor(cells: Cells) {
      this[CELLS] = cells
    }
  }
  fields.forEach(({ name }, index) => {
    Object.defineProperty(NamedRow.prototype, name, {
      get(this: NamedRow) {
        return this[CELLS][index]
      },
    })
  })
  return { fields, NamedRow }
}

function hasColumns(shape: Shape | undefined, fields: Fields): boolean {
  return shape?.fields.length === fields.length && fields.every(({ name }, index) => name === shape.fields[index]!.name)
}
