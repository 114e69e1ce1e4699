/**
 * What of an error may stand in a log that nobody chose: its name and code always, its message only where it cannot hold a value
 * of the user's. Three rules, by who threw it:
 *
 * - Whoever it was, a handler too. Messages of our own errors: their texts are constant but for names out of the program, ids
 *   and times; what they quote is left out, and of an input that does not fit only where it does not. What Postgres says about
 *   itself, and which table, column, function or right it misses: statements get values as parameters, and no such message
 *   repeats those. Not syntax errors (42601), nor what is wrong with data (22, 23) or was raised by a trigger (P0): these quote.
 *   And what pg says of connections, which is constant.
 * - A chore: also which address a socket could not reach. Of a handler that could be a customer's; a chore has no customer.
 * - A request of ours, to the database or to SQS: whatever the driver or the SDK says. They speak of hosts, credentials, queues
 *   and rights. Only a parser quotes what it was reading, and that may be the body of a message.
 */
import {
  type ErrorCode,
  type InvalidInputError,
  type InvalidOptionError,
  LeaseholdError,
  type NotSentError,
} from './errors.ts'

const MOST_CHARS = 400
const A_FEW = 5

/** Whoever threw it. Empty: nothing. */
export function quotable(error: unknown): string {
  return safely(() => ofAnybody(error))
}

/** Of a chore. */
export function quotableOfChore(error: unknown): string {
  return safely(() => ofAnybody(error) || ofSocket(error))
}

/** Of a request of ours. */
export function quotableOfRequest(error: unknown): string {
  return safely(() => ofRequest(error))
}

/** Getters can throw, and a message can be anything. */
function safely(quote: () => string): string {
  try {
    const [line = ''] = quote().split('\n')
    return line.replace(/\.$/, '').slice(0, MOST_CHARS)
  } catch {
    return ''
  }
}

function ofAnybody(error: unknown): string {
  if (error instanceof LeaseholdError) return OURS[error.code]?.(error) ?? ''
  const { message, code } = (error ?? {}) as { message?: unknown; code?: unknown }
  if (typeof message !== 'string') return ''
  if (isOfPostgres(error)) return ABOUT_ITSELF.test(String(code)) ? message : ''
  return BY_DRIVER.test(message) ? message : ''
}

function ofRequest(error: unknown): string {
  if (error instanceof LeaseholdError || isOfPostgres(error)) return ofAnybody(error)
  const { message, errors } = (error ?? {}) as { message?: unknown; errors?: unknown }
  // A host with several addresses, of which none answers.
  if (message === '' && Array.isArray(errors)) return [...new Set(errors.map(ofRequest))].join(', ')
  return error instanceof SyntaxError || typeof message !== 'string' ? '' : message
}

/** From its fields: the message of one about a file would have the path. */
function ofSocket(error: unknown): string {
  const { syscall, code, errors } = error as { syscall?: unknown; code?: unknown; errors?: unknown }
  if (Array.isArray(errors)) return [...new Set(errors.map(ofSocket))].filter(Boolean).join(', ')
  if (typeof syscall !== 'string' || !/^(connect|read|write|getaddrinfo)$/.test(syscall)) return ''
  const { address, hostname, port } = error as { address?: string; hostname?: string; port?: number }
  const where = address ?? hostname
  return `${syscall} ${code}${where === undefined ? '' : ` ${where}${port === undefined ? '' : `:${port}`}`}`
}

const ABOUT_ITSELF = /^(08|25|28|3D|3F|40|42(?!601)|53|55|57)/
const BY_DRIVER =
  /^(Connection terminated( unexpectedly| due to connection timeout)?|timeout (expired|exceeded when trying to connect)|Query read timeout|Client (was closed|has encountered a connection error) and is not queryable)$/

/** By its fields: there may be two copies of pg. */
function isOfPostgres(error: unknown): boolean {
  const { severity, code } = (error ?? {}) as { severity?: unknown; code?: unknown }
  return typeof severity === 'string' && /^[0-9A-Z]{5}$/.test(String(code))
}

const whole = ({ message }: Error): string => message
const unquoted = ({ message }: Error): string => blank(message)
const nothing = (): string => ''

/** A line for each, so that a new one is thought about. */
const OURS: Readonly<Record<ErrorCode, (error: LeaseholdError) => string>> = {
  CANCEL_REQUESTED: whole,
  CONCURRENT_MODIFICATION: nothing, // Made of what was seen.
  DEADLINE: whole,
  EFFECT_UNKNOWN: unquoted,
  IDEMPOTENCY_CONFLICT: unquoted, // Made of keys.
  INVALID_INPUT: (error) => whereItDoesNotFit(error as InvalidInputError),
  INVALID_OPTION: (error) => optionAndReason(error as InvalidOptionError),
  JOB_NOT_FOUND: whole,
  LEASE_LOST: whole,
  LOCK_TIMEOUT: nothing, // Made of keys.
  NOT_SENT: (error) => whichAreNotSent(error as NotSentError),
  ROLLED_BACK: whole,
  SCHEMA: whole,
  STOPPING: whole,
  TIMED_OUT: whole,
  TRANSACTION_CONFLICT: whole,
  VALUE_NOT_STORABLE: (error) => unquoted(error).replace(/reading it threw: .*/s, 'reading it threw'),
}

function blank(text: string): string {
  return text.replaceAll(/"(?:[^"\\]|\\.)*"/g, '"…"')
}

/** The name of the option may have that of a table in quotes. */
function optionAndReason({ message, option }: InvalidOptionError): string {
  const reasonAt = message.indexOf(option) + option.length
  return message.slice(0, reasonAt) + blank(message.slice(reasonAt))
}

/** A path with a key in it that no programmer would give to a field is left out: that may be data, an address or an account. */
function whereItDoesNotFit({ issues }: InvalidInputError): string {
  const paths = new Set(issues.map(({ path }) => path).filter((path) => NAMES.test(path)))
  return paths.size === 0 ? 'it does not fit' : `it does not fit at ${few([...paths])}`
}

/** Fields and places in lists. */
const NAMES = /^[A-Za-z_]\w{0,40}(\.([A-Za-z_]\w{0,40}|\d{1,4}))*$/

/** Each with the name or code of what was in the way. What follows that may be said by a function of the user's. */
function whichAreNotSent({ unsent }: NotSentError): string {
  return `not sent: ${few(unsent.map(({ id, reason }) => `${id} (${/^[\w.]+/.exec(reason)?.[0] ?? '…'})`))}`
}

function few(list: readonly string[]): string {
  if (list.length <= A_FEW) return list.join(', ')
  return `${list.slice(0, A_FEW).join(', ')} and ${list.length - A_FEW} more`
}
