/** The text before the stories and after them. */
import { showFindings } from '../findings.ts'
import type { Screen } from '../screen.ts'
import { STUCK_AFTER } from '../summary.ts'
import { CENTS_PER_CALL, HIDDEN_MS, ROWS, WORKERS, waysOfActs } from './scale.ts'
import type { Stage } from './stage.ts'
import { type ActBill, billOf, findings } from './verdict.ts'

export function openingWords(screen: Screen, isUnguarded: boolean): string {
  const title = isUnguarded ? 'Leasehold: effects, without what protects them' : 'Leasehold: effects'
  const times = `Redelivery takes ${HIDDEN_MS / 1_000} s here, recovery ${STUCK_AFTER}. The defaults are longer.`
  return `
  ${screen.paint(title, 'bold')}
  ${WORKERS} worker processes, one PostgreSQL, and an LLM that takes ${CENTS_PER_CALL} cents a call.
  The queue is a toy of this demo's own. It delivers every message twice or more.
  ${screen.paint(times, 'dim')}
`
}

export function summaryTitle(screen: Screen): string {
  return `
  ${screen.paint('Story 1: called the LLM twice', 'bold')}
  ${ROWS} rows want a summary, and for each there is a message. Messages come twice.`
}

export function incidentTitle(screen: Screen): string {
  return `
  ${screen.paint('Story 2: two open incidents', 'bold')}
  An entity may have one open incident. No unique index can say so, since for some
  policies two are right; and to evaluate takes too long to hold a lock meanwhile.`
}

/** Whether every number is right. */
export async function showVerdict(stage: Stage): Promise<boolean> {
  const { screen, isUnguarded } = stage
  await showBill(stage)
  const right = showFindings(screen, 'What the tables say, and the LLM', await findings(stage))
  screen.print(`\n  ${screen.paint(summary(right, isUnguarded), right ? 'green' : 'red')}\n`)
  return right
}

const BILL: readonly [what: string, cell: (bill: ActBill) => number | string][] = [
  ['rows', ({ rows }) => rows],
  ['calls of the LLM', ({ calls }) => calls],
  ['billed', ({ billed }) => billed],
  [`at ${CENTS_PER_CALL} cents each`, ({ billed }) => dollars(billed)],
  ['rows paid for twice', ({ rowsPaidTwice }) => rowsPaidTwice],
  ['results overwritten', ({ overwritten }) => overwritten],
  ['rows unfinished', ({ unfinished }) => unfinished],
]

async function showBill(stage: Stage): Promise<void> {
  const { screen, isUnguarded } = stage
  const ways = waysOfActs(isUnguarded)
  const bills = await Promise.all(ways.map((_, index) => billOf(stage, index + 1)))
  const line = (what: string, cells: readonly (number | string)[]) =>
    `  ${what.padEnd(28)}${cells.map((cell) => String(cell).padStart(13)).join('')}`
  screen.print(screen.paint(line('The bill', ways), 'bold'))
  for (const [what, cell] of BILL) screen.print(line(what, bills.map(cell)))
  if (!isUnguarded) screen.print(screen.paint(HONESTY, 'dim'))
  screen.print('')
}

const HONESTY = `
  Nobody can know whether a call that was cut off has happened. An LLM that knows
  no keys would have billed it again: that is as far as any database can help.`

export function whereToLook(url: string): string {
  return `  The database stays up until Ctrl-C. See summary, overwritten, handled, incident:\n\n    psql ${url}\n`
}

export function whatElse(screen: Screen, isUnguarded: boolean): string {
  const command = (flag: string) => screen.paint(`npm run demo:effects${flag}`.padEnd(38), 'cyan')
  const other = isUnguarded
    ? `${command('')}with the claim and the guard`
    : `${command(' -- --unguarded')}without the claim and the guard`
  return `  ${other}\n  ${command(' -- --stay')}keeps the database, to look around\n`
}

export function dollars(calls: number): string {
  return `$${((calls * CENTS_PER_CALL) / 100).toFixed(2)}`
}

/** Consecutive ones. */
export function rows(ids: readonly number[]): string {
  const last = ids.at(-1)
  return ids.length === 1 ? `row ${last}` : `rows ${ids[0]} ${ids.length === 2 ? 'and' : 'to'} ${last}`
}

function summary(right: boolean, isUnguarded: boolean): string {
  if (right) return 'Two phases: nothing was paid for twice. The guard: nothing was opened twice.'
  return isUnguarded ? 'That is what the claim and the guard are for.' : 'That is not as it should be.'
}
