/** The text before the story and after it. */
import { BUCKETS } from '../../src/core/bucket.ts'
import { showFindings } from '../findings.ts'
import type { Screen } from '../screen.ts'
import { ACCOUNTS, LEASE_MS } from './scale.ts'
import type { Told } from './story.ts'
import type { Verdict } from './verdict.ts'

export function openingWords(screen: Screen, isUnprotected: boolean): string {
  const title = `Leasehold: a fleet that changes all the time${isUnprotected ? ', on a ring made by hand' : ''}`
  const how = isUnprotected
    ? 'Workers with a heartbeat compute the same ring, and take the rows of their\n  buckets. There is no lease, no fence and no order in the rows.'
    : 'Each account has one worker, which keeps the last entry in memory. What keeps\n  it safe is in the rows: leases, a fence, and the order of each account.'
  const key = `Below, each letter is a bucket and the seat of its owner. A dot has no owner, a
  small letter is a worker that stands still. Leases last for ${LEASE_MS / 1_000} s here, not for 30 s.`
  return `
  ${screen.paint(title, 'bold')}
  ${ACCOUNTS} accounts get bookings all the time, and those of one account must stay in order.
  Their keys are in ${BUCKETS} buckets, and a ring gives each bucket to one worker.
  ${how}
  Meanwhile workers join, are killed, stand still and are replaced one by one.

  ${screen.paint(key, 'dim')}
`
}

/** Whether every number is right. */
export function showVerdict(
  screen: Screen,
  { findings, entries }: Verdict,
  told: Told,
  isUnprotected: boolean,
): boolean {
  screen.print(
    `  ${screen.paint('What each change moved'.padEnd(30), 'bold')}${screen.paint(` buckets   one owner each after`, 'dim')}`,
  )
  for (const { what, moved, seconds } of told.steps) {
    const share = `(${Math.round((moved / BUCKETS) * 100)} %)`
    screen.print(
      `  ${what.padEnd(30)}${String(moved).padStart(8)} ${share.padStart(7)}${`${seconds.toFixed(1)} s`.padStart(12)}`,
    )
  }
  screen.print('')
  const right = showFindings(screen, 'What the tables have on record', findings)
  screen.print(`\n  ${entries.byMemory} entries found the last one of their account in the worker's memory.`)
  screen.print(`\n  ${screen.paint(summary(right, isUnprotected), right ? 'green' : 'red')}\n`)
  return right
}

export function whatElse(screen: Screen, isUnprotected: boolean): string {
  const command = screen.paint(`npm run demo:fleet${isUnprotected ? '' : ' -- --unprotected'}`.padEnd(40), 'cyan')
  return `  ${command}${isUnprotected ? 'with leases, fence and order' : 'the same on a ring made by hand'}\n`
}

function summary(right: boolean, isUnprotected: boolean): string {
  if (right) return 'Every account was kept in order, through joins, a kill, a pause and a deploy.'
  if (!isUnprotected) return 'That is not as it should be.'
  return 'A ring only decides who looks where. Safety takes a fence and an order in the rows.'
}
