/** The checks at the end, when no process is left that could change anything: by the tables of both databases. */
import type { Reconciliation } from '../../src/outbox/index.ts'
import type { Finding } from '../findings.ts'
import type { Databases } from './databases.ts'
import { ORDERS } from './scale.ts'

export interface Verdict {
  readonly findings: readonly Finding[]
  readonly reports: readonly Reconciliation[]
}

export async function judge(databases: Databases, isUnprotected: boolean): Promise<Verdict> {
  const [invoices, shipments] = await Promise.all([databases.damage('billing'), databases.damage('shipping')])
  // Without an outbox there is nothing to compare.
  const reports = isUnprotected
    ? []
    : await Promise.all([databases.reconcile('billing'), databases.reconcile('shipping')])
  const ofReports = reports.flatMap(({ destination, events, received, missing }): Finding[] => [
    { what: `${destination}: events published`, found: events, expected: ORDERS },
    { what: `${destination}: events received`, found: received, expected: ORDERS },
    { what: `${destination}: events missing`, found: missing, expected: 0 },
  ])
  const findings = [
    { what: 'orders paid', found: await databases.paid(), expected: ORDERS },
    { what: 'orders without an invoice', found: invoices.lost, expected: 0 },
    { what: 'orders with two invoices or more', found: invoices.doubled, expected: 0 },
    { what: 'orders never shipped', found: shipments.lost, expected: 0 },
    { what: 'orders shipped twice or more', found: shipments.doubled, expected: 0 },
    ...ofReports,
  ]
  return { findings, reports }
}
