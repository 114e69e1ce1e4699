/** The text before the story and after it. */
import type { RecordedStep, RunSnapshot } from '../../src/workflow/index.ts'
import { type Finding, showFindings } from '../findings.ts'
import type { Screen } from '../screen.ts'
import { ALL_ORDERS, LEASE, LOST_ORDER, PATIENCE_MS } from './scale.ts'
import type { Services } from './services.ts'

export function openingWords(screen: Screen, isUnprotected: boolean): string {
  const title = `Leasehold: a checkout${isUnprotected ? ' written by hand, as one plain job' : ' that survives kill -9'}`
  const how = isUnprotected
    ? 'One plain job calls the services one after the other. Nothing records how far it came.'
    : 'Each order is a run of a workflow. What its steps did is on record in PostgreSQL.'
  const mishaps = isUnprotected
    ? 'Workers are killed in the middle.'
    : 'Workers are killed in the middle, and version 2 is deployed while orders of version 1 are open.'
  return `
  ${screen.paint(title, 'bold')}
  A shop takes ${ALL_ORDERS} orders: reserve the goods, charge the card, book it, send a receipt,
  wait for the shipment, notify the customer. If no shipment comes in time: refund, release.
  ${how}
  ${mishaps}
  ${screen.paint(`Leases last for ${LEASE} here, not for 30s. The patience of order ${LOST_ORDER} is ${PATIENCE_MS.lost / 1_000} s, not a week.`, 'dim')}
`
}

/** Whether every number is right. */
export function showVerdict(
  screen: Screen,
  findings: readonly Finding[],
  services: Services,
  isUnprotected: boolean,
): boolean {
  const right = showFindings(screen, 'What the services and the tables have on record', findings)
  const { calls, repeated } = services
  const known = isUnprotected
    ? 'none of them with a key'
    : `${repeated} of them repeated under a known key: nothing happened`
  screen.print(`\n  The services were called ${calls.length} times, ${known}.`)
  screen.print(`\n  ${screen.paint(summary(right, isUnprotected), right ? 'green' : 'red')}\n`)
  return right
}

/** What a run went through, as getRun() returns it. */
export function showTimeline(screen: Screen, run: RunSnapshot): void {
  const from = run.enqueuedAt.getTime()
  const line = ({ type, name, state, worker, recordedAt, result }: RecordedStep) => {
    const seconds = `${((recordedAt.getTime() - from) / 1_000).toFixed(1)} s`.padStart(8)
    const first = type === 'any' ? `: ${(result as { name: string }).name}` : ''
    const what = type === 'compensation' ? `undo ${name}` : type === 'step' ? name : `${type}${first}`
    return `  ${screen.paint(seconds, 'dim')}   ${what.padEnd(20)}${state.padEnd(12)}${worker ?? ''}`
  }
  screen.print(`  ${screen.paint(`What order ${LOST_ORDER} went through, by getRun()`, 'bold')}`)
  for (const step of run.steps) screen.print(line(step))
  screen.print(`  ${' '.repeat(8)}   ${run.status}: ${run.reason}\n`)
}

export function whatElse(screen: Screen, isUnprotected: boolean): string {
  const command = screen.paint(`npm run demo:workflow${isUnprotected ? '' : ' -- --unprotected'}`.padEnd(42), 'cyan')
  return `  ${command}${isUnprotected ? 'as a workflow' : 'the same by hand, as one plain job'}\n`
}

function summary(right: boolean, isUnprotected: boolean): string {
  if (right) return 'Every order was charged once, and was either shipped or refunded. Nothing happened twice.'
  if (!isUnprotected) return 'That is not as it should be.'
  return 'A marker and a key for every call would prevent this. A step of a workflow is both.'
}
