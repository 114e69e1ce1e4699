import { DeadlineError, SchemaError } from '../core/errors.ts'

/** The server is shutting down, unreachable, out of connections, or has become a standby. */
const BY_SERVER = /^(57P0[1-5]|08\d{3}|25006|53300)$/
const BY_SOCKET = /^(ECONN\w+|EPIPE|ETIMEDOUT|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|ENOENT)$/
/** PgBouncer's code for all its own errors; FATAL for those that end a session. From Postgres it concerns one statement. */
const BY_POOLER = '08P01'
/** pg's socket errors, which have no code. */
const BY_DRIVER =
  /^(Connection terminated|timeout e|Query read timeout|Client has encountered a connection error|Client was closed)/

/** Whether the error comes from Postgres or its driver, and not from some other socket of the program. */
export function isPostgresError(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  const { code: given, severity } = error as { code?: unknown; severity?: unknown }
  const code = String(given ?? '')
  if (code === BY_POOLER) return severity === 'FATAL'
  return code === '' ? BY_DRIVER.test(error.message) : BY_SERVER.test(code)
}

/** Whether the server could not be reached, rather than refused. The statement may have been carried out. */
export function isOutage(error: unknown): boolean {
  if (error instanceof DeadlineError || isPostgresError(error)) return true
  return error instanceof Error && BY_SOCKET.test(String((error as { code?: unknown }).code ?? ''))
}

/**
 * Login refused, a missing database, schema, table, column, function or privilege, or any error of a pooler (08P01). For a
 * constant statement the cause is a changed password or a migration that has not run.
 */
const FOR_ALL = /^(28...|08P01|3D000|3F000|42P01|42703|42883|42501)$/

/** Whether our statement would get this error for every row, until an operator acts. */
export function refusesAll(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  if (error instanceof SchemaError || error.message.startsWith('Cannot use a pool after calling end')) return true
  const { code, routine } = error as { code?: unknown; routine?: unknown }
  // A row security policy that forbids one row has the same code as a missing privilege.
  return FOR_ALL.test(String(code)) && routine !== 'ExecWithCheckOptions'
}
