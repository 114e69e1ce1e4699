/** The text before the story and after it. */
import type pg from 'pg'
import type { Mode } from './crew.ts'
import { showFindings } from './findings.ts'
import { ALL_ORDERS, LEASE } from './scale.ts'
import type { Screen } from './screen.ts'
import { findings, SEE_FOR_YOURSELF } from './verdict.ts'

export function openingWords(screen: Screen, mode: Mode): string {
  const title = mode === 'fenced' ? 'Leasehold' : "Leasehold, but with receipts sent outside the job's transaction"
  return `
  ${screen.paint(title, 'bold')}
  A shop with ${ALL_ORDERS} orders, three worker processes and one PostgreSQL.
  ${screen.paint(`A lease lasts ${LEASE} here, so that you need not wait. The default is 30s.`, 'dim')}
`
}

/** Whether every number is right. */
export async function showVerdict(screen: Screen, pool: pg.Pool, mode: Mode): Promise<boolean> {
  const right = showFindings(screen, 'What the tables say', await findings(pool))
  const { rows } = await pool.query({ text: SEE_FOR_YOURSELF, rowMode: 'array' })
  screen.print(`\n  ${screen.paint(summary(right, mode), right ? 'green' : 'red')}\n`)
  screen.print(screen.paint('  See for yourself: every order that does not have exactly one receipt', 'bold'))
  for (const line of SEE_FOR_YOURSELF.split('\n')) screen.print(`    ${screen.paint(line, 'cyan')}`)
  screen.print('')
  const columns = ['order', 'status', 'reason', 'attempts', 'receipts']
  for (const row of [columns, ...rows]) screen.print(`    ${tabulated(row)}`)
  screen.print('')
  return right
}

export function whereToLook(url: string): string {
  return `  The database stays up until Ctrl-C:\n\n    psql ${url}\n`
}

export function whatElse(screen: Screen, mode: Mode): string {
  const command = (flag: string) => screen.paint(`npm run demo${flag}`.padEnd(29), 'cyan')
  const other =
    mode === 'fenced'
      ? `${command(' -- --unfenced')}without the fence: receipts are sent twice`
      : `${command('')}with the fence`
  return `  ${other}\n  ${command(' -- --stay')}keeps the database, for you to look around\n`
}

function summary(right: boolean, mode: Mode): string {
  if (right) return 'No receipt was lost, and none was sent twice.'
  return mode === 'fenced' ? 'That is not as it should be.' : 'That is what the fence is for.'
}

function tabulated(row: readonly unknown[]): string {
  return row
    .map((cell) => String(cell ?? '').padEnd(13))
    .join('')
    .trimEnd()
}
