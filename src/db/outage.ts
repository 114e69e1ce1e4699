import { DeadlineError, SchemaError } from '../core/errors.ts'

/** The server is going, is not to be reached, has no room, or has become somebody's standby. */
const BY_SERVER = /^(57P0[1-5]|08\d{3}|25006|53300)$/
const BY_SOCKET = /^(ECONN\w+|EPIPE|ETIMEDOUT|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|ENOENT)$/
/** So PgBouncer calls all that it says itself, and is FATAL about what ends a session. Of Postgres it is about one statement. */
const BY_POOLER = '08P01'
/** What pg says of sockets, without a code. */
const BY_DRIVER =
  /^(Connection terminated|timeout e|Query read timeout|Client has encountered a connection error|Client was closed)/

/** Whether Postgres or its driver says so, and not merely some socket, which may be anybody's. */
export function saysPostgres(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  const { code: given, severity } = error as { code?: unknown; severity?: unknown }
  const code = String(given ?? '')
  if (code === BY_POOLER) return severity === 'FATAL'
  return code === '' ? BY_DRIVER.test(error.message) : BY_SERVER.test(code)
}

/** Whether the error says that the server could not be asked, rather than that it refused. It may have done what was sent. */
export function isOutage(error: unknown): boolean {
  if (error instanceof DeadlineError || saysPostgres(error)) return true
  return error instanceof Error && BY_SOCKET.test(String((error as { code?: unknown }).code ?? ''))
}

/**
 * Not let in, no such database, schema, table, column or function, no right to it, or all that a pooler says (08P01). Of a
 * statement that is always the same, this is about a password that was changed or a migration that has not run.
 */
const FOR_ALL = /^(28...|08P01|3D000|3F000|42P01|42703|42883|42501)$/

/** Whether this answer to a statement of ours would be the same whatever row it was about, until a person does something. */
export function refusesAll(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  if (error instanceof SchemaError || error.message.startsWith('Cannot use a pool after calling end')) return true
  const { code, routine } = error as { code?: unknown; routine?: unknown }
  // A policy that forbids one row has the code of a missing right to all of them.
  return FOR_ALL.test(String(code)) && routine !== 'ExecWithCheckOptions'
}
