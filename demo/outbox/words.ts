/** The text before the story and after it. */
import type { Reconciliation } from '../../src/outbox/index.ts'
import { showFindings } from '../findings.ts'
import type { Screen } from '../screen.ts'
import { LEASE, ORDERS, VISIBILITY } from './scale.ts'
import type { Verdict } from './verdict.ts'

export function openingWords(screen: Screen, isUnprotected: boolean): string {
  const title = `Leasehold: from one database to another${isUnprotected ? ', without outbox and inbox' : ''}`
  const sender = isUnprotected
    ? 'The till commits the payment, and then sends a message to both.'
    : 'A payment and its event are one commit, and a relay sends the event to both.'
  const receiver = isUnprotected
    ? 'Billing writes and then acknowledges, shipping acknowledges and then writes.'
    : 'Each receiver writes with its inbox, and then acknowledges.'
  return `
  ${screen.paint(title, 'bold')}
  A shop is paid for ${ORDERS} orders. The back office, in a database of its own, writes
  an invoice for each order that SQS announces, and a shipment for each from NATS.
  ${sender}
  ${receiver}
  Tills, relays, receivers and the brokers are killed at the worst moments.
  ${screen.paint('NATS is nats-server. SQS is fauxqs, an emulator on loopback, and the client is the', 'dim')}
  ${screen.paint(`real AWS SDK. Leases last for ${LEASE} here and messages are hidden for ${VISIBILITY}, not for 30s.`, 'dim')}
`
}

/** Whether every number is right. */
export function showVerdict(screen: Screen, { findings, reports }: Verdict, isUnprotected: boolean): boolean {
  const right = showFindings(screen, 'What the tables of both databases show', findings)
  if (!isUnprotected) screen.print(showReports(screen, reports))
  screen.print(`\n  ${screen.paint(summary(right, isUnprotected), right ? 'green' : 'red')}\n`)
  return right
}

function showReports(screen: Screen, reports: readonly Reconciliation[]): string {
  const line = (cells: readonly (string | number)[]) =>
    `  ${String(cells[0]).padEnd(22)}${cells
      .slice(1)
      .map((cell) => String(cell).padStart(11))
      .join('')}`
  const head = line(['outbox.reconcile()', 'copies', 'duplicates', 'delay p50', 'p99', 'longest'])
  const rows = reports.map(({ destination, received, duplicates, duplicateRate, delay }) => {
    const copies = `${duplicates} (${Math.round(100 * duplicateRate)} %)`
    return line([destination, received + duplicates, copies, ...[delay?.p50Ms, delay?.p99Ms, delay?.maxMs].map(time)])
  })
  return `\n${[screen.paint(head, 'bold'), ...rows].join('\n')}`
}

function time(ms: number | undefined): string {
  if (ms === undefined) return '–'
  return ms < 1_000 ? `${Math.round(ms)} ms` : `${(ms / 1_000).toFixed(1)} s`
}

export function whatElse(screen: Screen, isUnprotected: boolean): string {
  const command = screen.paint(`npm run demo:outbox${isUnprotected ? '' : ' -- --unprotected'}`.padEnd(40), 'cyan')
  return `  ${command}${isUnprotected ? 'with outbox and inbox' : 'the same without outbox and inbox'}\n`
}

function summary(right: boolean, isUnprotected: boolean): string {
  if (right) return 'Every payment has one invoice and one shipment, and nothing is missing.'
  return isUnprotected ? 'That is what outbox and inbox are for.' : 'That is not as it should be.'
}
