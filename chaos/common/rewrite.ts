/** Plants a bug in the statements that this process sends. */
import pg from 'pg'
import type { Witness } from './witness.ts'

/** Which statement, what in it, and by what it is replaced. */
export interface Rewrite {
  readonly statement: RegExp
  readonly from: RegExp
  readonly to: string
}

type Query = (this: pg.Client, config: unknown, ...rest: unknown[]) => unknown

export function rewriteStatements(rewrites: readonly Rewrite[], witness: Witness): void {
  const prototype = pg.Client.prototype as unknown as { query: Query }
  const { query } = prototype
  const seen = new Set<string>()
  prototype.query = function (config, ...rest) {
    const text = typeof config === 'string' ? config : (config as { text?: string } | undefined)?.text
    const found = text === undefined ? undefined : rewrites.find(({ statement }) => statement.test(text))
    if (found === undefined) return query.call(this, config, ...rest)
    const changed = text!.replace(found.from, found.to)
    if (changed !== text && !seen.has(changed)) witness.write('planted')
    seen.add(changed)
    // Changed in place: a prepared statement is an object of the library's own.
    return query.call(
      this,
      typeof config === 'string' ? changed : Object.assign(config as object, { text: changed }),
      ...rest,
    )
  }
}
