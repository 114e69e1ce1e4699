import type { Kind } from './kind.ts'
import type { Log } from './log.ts'

const COMPARED = ['queue', 'ordered', 'priority', 'maxAttempts', 'backoff', 'timeoutMs', 'keepMs', 'keepKeyMs'] as const

/**
 * Warns, once per name, of two kinds with one name and different options. An error would be too much: both work, each call
 * with the options of its own kind.
 */
export class KindNames {
  readonly #log: Log
  readonly #first = new Map<string, Kind>()
  readonly #warned = new Set<string>()

  constructor(log: Log) {
    this.#log = log
  }

  see(kind: Kind): void {
    const first = this.#first.get(kind.name)
    if (first === undefined) this.#first.set(kind.name, kind)
    if (first === undefined || first === kind || this.#warned.has(kind.name)) return
    const differing = COMPARED.filter((name) => JSON.stringify(first[name]) !== JSON.stringify(kind[name]))
    if (differing.length === 0) return
    this.#warned.add(kind.name)
    const options = differing.map((name) => name.replace(/Ms$/, '')).join(', ')
    this.#log({
      level: 'warn',
      message: `two kinds are named ${kind.name} and differ in ${options}; declare the kind once and import it everywhere`,
      kind: kind.name,
    })
  }
}
