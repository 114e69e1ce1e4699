/** The checks at the end, when no process is left that could change anything: by what the tables have on record. */
import type { Finding } from '../findings.ts'
import type { Accounts, Findings } from './accounts.ts'
import type { Told } from './story.ts'

export interface Verdict {
  readonly findings: readonly Finding[]
  readonly entries: Findings
}

export async function judge(accounts: Accounts, told: Told, isUnprotected: boolean): Promise<Verdict> {
  const entries = await accounts.findings()
  const { enqueued } = accounts
  const { missing, twice, orderBreaks, overlaps, stale } = entries
  const ofLeases = { isMoot: isUnprotected }
  const findings = [
    { what: 'jobs done, of those that were enqueued', found: enqueued - missing, expected: enqueued },
    { what: 'jobs lost', found: missing, expected: 0 },
    { what: 'entries made twice', found: twice, expected: 0 },
    { what: 'entries after a later one of their account', found: orderBreaks, expected: 0 },
    { what: 'entries that overlap with another of their account', found: overlaps, expected: 0 },
    { what: 'entries made on a stale value in memory', found: stale, expected: 0 },
    { what: 'buckets that the deploy moved for good', found: told.moved, expected: 0, ...ofLeases },
    { what: 'leases expired, or attempts spent, during the deploy', found: told.crashes, expected: 0, ...ofLeases },
  ]
  return { findings, entries }
}
