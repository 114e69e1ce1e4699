/**
 * Counts what this process asks of the database. All contenders use `pg`, from one of two copies, and both are counted where
 * they write to the socket, so that a pool, a pipeline or a prepared statement makes no difference.
 *   statements  queries sent: simple ones, and executions of prepared ones. `begin`, `commit` and `listen` are among them.
 *   commits     transactions ended: the server is ready again, in no transaction, and not for the first time.
 *               pg_stat_database.xact_commit shows the same, but late, and for producer and worker in one sum.
 * It costs an addition each.
 */
import { createRequire } from 'node:module'

export interface Counted {
  statements: number
  commits: number
}

type Method = (...args: unknown[]) => unknown
type Self = { readonly _connecting?: boolean }
type Prototype = Record<string, Method>

export const counted: Counted = { statements: 0, commits: 0 }

/** Once, after the contender's modules are loaded and before it connects. */
export function countStatements(): void {
  const connections = loaded(/[\\/]pg[\\/]lib[\\/]connection\.js$/)
  const clients = loaded(/[\\/]pg[\\/]lib[\\/]client\.js$/)
  if (connections.length === 0 || clients.length === 0) throw new Error('pg is not loaded: no statement can be counted')
  const onStatement = () => {
    counted.statements += 1
  }
  for (const prototype of connections) {
    before(prototype, 'query', onStatement)
    before(prototype, 'execute', onStatement)
  }
  for (const prototype of clients) {
    before(prototype, '_handleReadyForQuery', (message, { _connecting: isNew }) => {
      if (!isNew && (message as { status: string }).status === 'I') counted.commits += 1
    })
  }
}

function loaded(file: RegExp): Prototype[] {
  const { cache } = createRequire(import.meta.url)
  const paths = Object.keys(cache).filter((path) => file.test(path))
  return paths.map((path) => cache[path]!.exports.prototype)
}

function before(prototype: Prototype, name: string, also: (argument: unknown, self: Self) => void): void {
  const method = prototype[name]
  if (method === undefined) throw new Error(`pg has no ${name} any more`)
  prototype[name] = function (this: Self, ...args) {
    also(args[0], this)
    return method.apply(this, args)
  }
}
