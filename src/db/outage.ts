import pg from 'pg'
import { DeadlineError } from '../core/errors.ts'

/**
 * Whether the error says that the server could not be reached or was going, rather than that it refused. What was sent may
 * have been carried out.
 */
export function isOutage(error: unknown): boolean {
  if (error instanceof DeadlineError) return true
  const code = String((error as { code?: unknown } | null | undefined)?.code ?? '')
  if (error instanceof pg.DatabaseError || /^[0-9A-Z]{5}$/.test(code)) return /^(57P..|08...|25006|53300)$/.test(code)
  // What Node and pg say of sockets; a TypeError is a mistake in somebody's code.
  return (
    error instanceof Error &&
    (code !== '' || /connection|timeout/i.test(error.message)) &&
    !(error instanceof TypeError)
  )
}
