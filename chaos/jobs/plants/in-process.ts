/** Plants the part of a bug that is in the processes. */
import pg from 'pg'
import type { Witness } from '../witness.ts'
import { PLANTS } from './all.ts'
import type { Rewrite } from './plant.ts'

const LEAK_EVERY_MS = 100
const LEAKED_NUMBERS = 130_000

export function plantInProcess(name: string, url: string, witness: Witness): void {
  const { rewrite = [], leaks } = PLANTS[name]!
  if (rewrite.length > 0) rewriteStatements(rewrite, witness)
  if (leaks === undefined || !witness.name.startsWith('worker')) return
  const kept: unknown[] = []
  const leak = () => {
    if (leaks === 'memory') return kept.push(Array.from({ length: LEAKED_NUMBERS }, Math.random))
    const client = new pg.Client(url)
    client.on('error', () => {})
    return kept.push(client.connect().catch(() => {}))
  }
  setInterval(leak, LEAK_EVERY_MS * (leaks === 'memory' ? 1 : 5)).unref()
  witness.write('planted')
}

type Query = (this: pg.Client, config: unknown, ...rest: unknown[]) => unknown

function rewriteStatements(rewrites: readonly Rewrite[], witness: Witness): void {
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
