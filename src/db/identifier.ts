/**
 * Names of the user's tables and columns. They cannot be parameters, so they are checked against a list of characters and
 * then quoted: no name can end the quotes, be folded to another name, or be truncated.
 */
import { InvalidOptionError } from '../core/errors.ts'

const NAME = /^[A-Za-z_][A-Za-z0-9_]{0,62}$/

/** One name, quoted, exactly as written when the table was created. */
export function quoteName(option: string, name: string): string {
  if (typeof name === 'string' && NAME.test(name)) return `"${name}"`
  throw new InvalidOptionError(
    option,
    `${JSON.stringify(name)} is not a name: 1 to 63 of A-Z, a-z, 0-9 and _, no digit first`,
  )
}

/** A table, with its schema in front if it has one: `job` or `billing.job`. */
export function quoteTable(option: string, name: string): string {
  const parts = typeof name === 'string' ? name.split('.') : [name]
  if (parts.length > 2) throw new InvalidOptionError(option, 'it has more than a schema and a table')
  return parts.map((part) => quoteName(option, part)).join('.')
}

/**
 * A role, quoted. Cloud providers name roles after e-mail addresses, so any name that Postgres accepts is accepted here. A
 * grant to `public` is for every role, quoted or not.
 */
export function quoteRole(option: string, name: string): string {
  const isName = typeof name === 'string' && name.isWellFormed() && !name.includes('\0')
  const bytes = isName ? Buffer.byteLength(name) : 0
  if (bytes >= 1 && bytes <= 63 && name !== 'public' && name !== 'none') return `"${name.replaceAll('"', '""')}"`
  throw new InvalidOptionError(
    option,
    `${JSON.stringify(name)} is not the name of a role: 1 to 63 bytes, not "public" or "none"`,
  )
}

/** Fills a statement's placeholders, `{table}`, `{id}` and so on. */
export function renderNames(statement: string, names: Readonly<Record<string, string>>): string {
  return statement.replace(/\{(\w+)\}/g, (_, word: string) => {
    const name = names[word]
    if (name === undefined) throw new TypeError(`the statement asks for {${word}}`)
    return name
  })
}
