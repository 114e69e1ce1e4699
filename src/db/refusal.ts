import pg from 'pg'

/** Not the connection, the server or its disk, but a value: sent again, it would be refused again. */
export function isAboutTheData(error: unknown): boolean {
  if (error instanceof RangeError) return true // Too long for a string.
  return error instanceof pg.DatabaseError && /^(22|23|54)/.test(error.code ?? '')
}
