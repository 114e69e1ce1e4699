/**
 * The parts of an error that the default log may print: always its name and code; its message only if it cannot hold a
 * user's value. Three rules, by source:
 *
 * - Any source, handlers included. Our own errors: their texts are constant except for names from the program, ids and
 *   times; quoted parts are removed, and an invalid input gives only its path. Postgres errors about itself, or about a
 *   missing table, column, function or privilege: values are sent as parameters, and these messages never repeat them.
 *   Syntax errors (42601), data errors (22, 23) and errors raised by a trigger (P0) do, so they are not printed. pg's
 *   connection errors are constant.
 * - A chore: also the address that a socket could not reach. In a handler it could be a customer's; a chore has no customer.
 * - Our own request, to the database or to SQS: any message of the driver or the SDK. They name hosts, credentials, queues
 *   and privileges. Only a parser quotes its input, which may be the body of a message.
 */
import {
  type ErrorCode,
  few,
  type InvalidInputError,
  type InvalidOptionError,
  LeaseholdError,
  type NotSentError,
} from './errors.ts'

const MOST_CHARS = 400

/** For any source. Empty: print nothing. */
export function quotable(error: unknown): string {
  return safely(() => ofAnybody(error))
}

/** For a chore. */
export function quotableOfChore(error: unknown): string {
  return safely(() => ofAnybody(error) || ofSocket(error))
}

/** For our own requests. */
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
  // A host with several addresses, none of which replies.
  if (message === '' && Array.isArray(errors)) return [...new Set(errors.map(ofRequest))].join(', ')
  return error instanceof SyntaxError || typeof message !== 'string' ? '' : message
}

/** From the error's fields: the message of an error about a file would hold the path. */
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

/** By its fields, because the program may hold two copies of pg. */
function isOfPostgres(error: unknown): boolean {
  const { severity, code } = (error ?? {}) as { severity?: unknown; code?: unknown }
  return typeof severity === 'string' && /^[0-9A-Z]{5}$/.test(String(code))
}

const whole = ({ message }: Error): string => message
const unquoted = ({ message }: Error): string => blank(message)
const nothing = (): string => ''

/** One line per code, so that a new code needs a decision. */
const OURS: Readonly<Record<ErrorCode, (error: LeaseholdError) => string>> = {
  CANCEL_REQUESTED: whole,
  CONCURRENT_MODIFICATION: nothing, // Its message holds the ids seen.
  DEADLINE: whole,
  EFFECT_UNKNOWN: unquoted,
  EVENT_CONFLICT: unquoted,
  IDEMPOTENCY_CONFLICT: unquoted, // Its message holds keys.
  INVALID_INPUT: (error) => whereItDoesNotFit(error as InvalidInputError),
  INVALID_OPTION: (error) => optionAndReason(error as InvalidOptionError),
  JOB_NOT_FOUND: whole,
  LEASE_LOST: whole,
  LOCK_TIMEOUT: nothing, // Its message holds keys.
  NOT_SENT: (error) => whichAreNotSent(error as NotSentError),
  ROLLED_BACK: whole,
  RUN_FINISHED: unquoted,
  RUN_NOT_FOUND: unquoted,
  SCHEMA: whole,
  SEAT_TAKEN: whole,
  STEP_FAILED: (error) => blank(error.message.replace(/ has failed: .*/s, ' has failed')),
  STOPPING: whole,
  TIMED_OUT: whole,
  TRANSACTION_CONFLICT: whole,
  VALUE_NOT_STORABLE: (error) => unquoted(error).replace(/reading it threw: .*/s, 'reading it threw'),
  WORKFLOW_CHANGED: whole, // Names of steps are in the code.
}

function blank(text: string): string {
  return text.replaceAll(/"(?:[^"\\]|\\.)*"/g, '"…"')
}

/** The name of the option may itself hold a table's name in quotes. */
function optionAndReason({ message, option }: InvalidOptionError): string {
  const reasonAt = message.indexOf(option) + option.length
  return message.slice(0, reasonAt) + blank(message.slice(reasonAt))
}

/** Drops a path with a key that does not look like a field name: that key may be data, such as an address. */
function whereItDoesNotFit({ issues }: InvalidInputError): string {
  const paths = new Set(issues.map(({ path }) => path).filter((path) => NAMES.test(path)))
  return paths.size === 0 ? 'it does not fit' : `it does not fit at ${few([...paths])}`
}

/** Field names and list indexes. */
const NAMES = /^[A-Za-z_]\w{0,40}(\.([A-Za-z_]\w{0,40}|\d{1,4}))*$/

/** Each with the name or code of its error. The rest of the reason may come from a user's function. */
function whichAreNotSent({ unsent }: NotSentError): string {
  return `not sent: ${few(unsent.map(({ id, reason }) => `${id} (${/^[\w.]+/.exec(reason)?.[0] ?? '…'})`))}`
}
