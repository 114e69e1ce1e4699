/** Plants the part of a bug that is in the processes. */
import pg from 'pg'
import { rewriteStatements } from '../../common/rewrite.ts'
import type { Witness } from '../../common/witness.ts'
import { PLANTS } from './all.ts'

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
