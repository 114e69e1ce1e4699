import { checkInteger } from '../core/check.ts'
import { InvalidOptionError } from '../core/errors.ts'
import { checkOptions } from '../core/options.ts'
import { quoteName, quoteTable, renderNames } from '../db/identifier.ts'
import type { Queryable } from '../db/lane.ts'
import { FENCED_COLUMN, FENCED_FIND, FENCED_WRITE } from './fenced-table.sql.ts'
import { checkRowId, type RowId } from './row-id.ts'
import { change, read } from './send.ts'

const ROUNDS = 10

export interface FencedTableOptions<Column extends string = string> {
  /** The column that identifies the row. Unique. */
  readonly id: string
  /** The column that keeps the highest generation seen; null until the first write. Default: generation. */
  readonly generation?: string
  /** The columns that may be written. */
  readonly columns: readonly Column[]
}

/** applied: written. stale: a newer generation has written here. not_found: no such row. */
export type FencedWrite = 'applied' | 'stale' | 'not_found'

/**
 * A table that stores the highest generation it has seen and refuses older ones: a worker that lost its lease cannot
 * overwrite its successor. It may be in any database. Each row must belong to one job: generations of two jobs are not
 * comparable.
 */
export class FencedTable<Column extends string = string> {
  readonly #quoted: Readonly<Record<'table' | 'id' | 'generation', string>>
  readonly #columns: ReadonlyMap<string, string>

  constructor(table: string, options: FencedTableOptions<Column>) {
    checkOptions('fencedTable', options ?? {}, ['id', 'generation', 'columns'])
    const { id, generation = 'generation', columns } = options ?? {}
    this.#quoted = {
      table: quoteTable('fencedTable', table),
      id: quoteName('fencedTable.id', id),
      generation: quoteName('fencedTable.generation', generation),
    }
    if (!Array.isArray(columns))
      throw new InvalidOptionError('fencedTable.columns', "it must be a list of column names such as ['result']")
    this.#columns = new Map(columns.map((column) => [column, quoteName('fencedTable.columns', column)]))
    for (const own of [id, generation]) {
      if (this.#columns.has(own))
        throw new InvalidOptionError('fencedTable.columns', `${own} is written by write() itself; leave it out`)
    }
    if (id === generation)
      throw new InvalidOptionError('fencedTable.generation', 'it must be a different column than id')
  }

  /** One guarded update. `db`: a pool, a client, your open transaction. */
  async write(
    db: Queryable,
    id: RowId,
    generation: number,
    set: { readonly [C in Column]?: unknown },
  ): Promise<FencedWrite> {
    checkInteger('generation', generation, 0, Number.MAX_SAFE_INTEGER)
    const assignments = Object.entries(set).map(([column, value], index) => {
      const quoted = this.#columns.get(column)
      if (quoted === undefined)
        throw new InvalidOptionError('set', `${JSON.stringify(column)} is not one of the columns`)
      if (value === undefined) throw new InvalidOptionError('set', `${column} is undefined; pass null, or leave it out`)
      return `${quoted} = $${index + 3}, `
    })
    const text = renderNames(FENCED_WRITE, { ...this.#quoted, assignments: assignments.join('') })
    const values = [checkRowId(id), generation, ...Object.values(set)]
    for (let round = 1; round <= ROUNDS; round++) {
      if ((await change(db, { text }, values)) !== undefined) return 'applied'
      const [row] = await read(db, { text: renderNames(FENCED_FIND, this.#quoted) }, [id, generation])
      if (row === undefined) return 'not_found'
      if (row[0] === 't') return 'stale'
      // The row appeared, or reappeared, since the update.
    }
    const what = `row ${id} has no newer generation, and yet no update changes it; does a policy or a trigger forbid it?`
    throw new InvalidOptionError('fencedTable', what)
  }

  /** The columns that the table needs, as SQL for your migration. */
  sql(): string {
    return `${renderNames(FENCED_COLUMN, this.#quoted).replace(/^--.*\n/, '')};`
  }
}

export function fencedTable<const Column extends string>(
  table: string,
  options: FencedTableOptions<Column>,
): FencedTable<Column> {
  return new FencedTable(table, options)
}
