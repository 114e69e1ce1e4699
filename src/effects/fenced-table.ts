import { InvalidOptionError } from '../core/errors.ts'
import { checkOptions } from '../core/options.ts'
import { settlingConflicts } from '../db/conflict.ts'
import { quoteName, quoteTable, renderNames } from '../db/identifier.ts'
import type { Queryable } from '../db/lane.ts'
import { isPool } from '../db/transaction.ts'
import { checkGeneration } from '../queue/outcome.ts'
import { FENCED_COLUMN, FENCED_WRITE } from './fenced-table.sql.ts'

export interface FencedTableOptions {
  /** The column that names the row. Unique. */
  readonly id: string
  /** The column that keeps the highest generation seen; null until the first write. Default: generation. */
  readonly generation?: string
  /** The columns that may be written. */
  readonly columns: readonly string[]
}

/** applied: written. stale: a newer generation has written here. not found: there is no such row. */
export type FencedWrite = 'applied' | 'stale' | 'not found'

/**
 * A table that keeps the highest generation it has seen, and refuses older ones: a worker that lost its lease cannot write
 * over its successor. It may be in any database. Each row must belong to one job: generations of two jobs say nothing about
 * each other.
 */
export class FencedTable {
  readonly #quoted: Readonly<Record<'table' | 'id' | 'generation', string>>
  readonly #columns: ReadonlyMap<string, string>

  constructor(table: string, options: FencedTableOptions) {
    checkOptions('fencedTable', options ?? {}, ['id', 'generation', 'columns'])
    const { id, generation = 'generation', columns } = options ?? {}
    this.#quoted = {
      table: quoteTable('fencedTable', table),
      id: quoteName('fencedTable.id', id),
      generation: quoteName('fencedTable.generation', generation),
    }
    if (!Array.isArray(columns)) throw new InvalidOptionError('fencedTable.columns', 'it must be a list of names')
    this.#columns = new Map(columns.map((column) => [column, quoteName('fencedTable.columns', column)]))
    for (const own of [id, generation]) {
      if (this.#columns.has(own)) throw new InvalidOptionError('fencedTable.columns', `${own} is not for you to write`)
    }
    if (id === generation) throw new InvalidOptionError('fencedTable.generation', 'it must be another column than id')
  }

  /** One guarded update. `db`: a pool, a client, your open transaction. */
  async write(
    db: Queryable,
    id: string | number,
    generation: number,
    set: Readonly<Record<string, unknown>>,
  ): Promise<FencedWrite> {
    checkGeneration(generation)
    const assignments = Object.entries(set).map(([column, value], index) => {
      const quoted = this.#columns.get(column)
      if (quoted === undefined)
        throw new InvalidOptionError('set', `${JSON.stringify(column)} is not one of the columns`)
      if (value === undefined) throw new InvalidOptionError('set', `${column} is undefined; pass null, or leave it out`)
      return `${quoted} = $${index + 3}, `
    })
    const text = renderNames(FENCED_WRITE, { ...this.#quoted, assignments: assignments.join('') })
    const values = [id, generation, ...Object.values(set)]
    const { rows } = await settlingConflicts(isPool(db), () => db.query({ text, values, rowMode: 'array' }))
    const [written, there] = (rows as unknown as [unknown, unknown][])[0]!
    if (Number(written) > 0) return 'applied'
    return Number(there) > 0 ? 'stale' : 'not found'
  }

  /** What the table needs, to be put into a migration of yours. */
  sql(): string {
    return `${renderNames(FENCED_COLUMN, this.#quoted).replace(/^--.*\n/, '')};`
  }
}

export function fencedTable(table: string, options: FencedTableOptions): FencedTable {
  return new FencedTable(table, options)
}
