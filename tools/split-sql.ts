/**
 * Cuts a migration into statements, so that each can be sent as a message of its own. Knows the syntax of our own files:
 * line comments, quoted strings and dollar-quoted bodies; a comment stays with the statement it precedes.
 */
export function splitSql(sql: string): string[] {
  const statements: string[] = []
  let start = 0
  for (const token of sql.matchAll(/--[^\n]*|'(?:[^']|'')*'|(\$\w*\$)[\s\S]*?\1|;/g)) {
    if (token[0] !== ';') continue
    statements.push(sql.slice(start, token.index).trim())
    start = token.index + 1
  }
  if (
    sql
      .slice(start)
      .replaceAll(/--[^\n]*/g, '')
      .trim() !== ''
  ) {
    throw new Error(`the last statement does not end with a semicolon: ${sql.slice(start).trim().slice(0, 80)}`)
  }
  return statements
}
