/** Names of the caller's tables and columns. They become part of a statement, so little is allowed, and all is quoted. */
import { InvalidOptionError } from '../core/errors.ts'

const NAME = /^[A-Za-z_][A-Za-z0-9_]{0,62}$/

/** One identifier: `order_id`. */
export function quoteName(option: string, name: string): string {
  if (typeof name === 'string' && NAME.test(name)) return `"${name}"`
  throw new InvalidOptionError(option, `${shown(name)} is not a name: 1 to 63 of A-Z, a-z, 0-9 and _, no digit first`)
}

/** A table, with its schema or without: `receipt`, `billing.receipt`. */
export function quoteTable(option: string, name: string): string {
  const parts = typeof name === 'string' ? name.split('.') : []
  if (parts.length < 1 || parts.length > 2) {
    throw new InvalidOptionError(option, `${shown(name)} is not a table: pass 'table' or 'schema.table'`)
  }
  return parts.map((part) => quoteName(option, part)).join('.')
}

function shown(name: unknown): string {
  return typeof name === 'string' ? JSON.stringify(name.slice(0, 100)) : `a ${typeof name}`
}
