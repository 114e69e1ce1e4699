import pg from 'pg'

/** The error is about a value, not about the connection, the server or its disk: sent again, it would be refused again. */
export function isAboutTheData(error: unknown): boolean {
  if (error instanceof RangeError) return true // The text exceeds the longest string of Node.
  return error instanceof pg.DatabaseError && /^(22|23|54)/.test(error.code ?? '')
}
