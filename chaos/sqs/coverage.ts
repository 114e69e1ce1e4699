/** A run that misses an event proves nothing about it. */
import { FAULTS } from '../../tools/faulty-sqs.ts'
import type { Finding } from '../common/finding.ts'
import { CUT_REPLIES, type Plan, type StrikeName } from './plan.ts'

const STRIKES: readonly StrikeName[] = ['SIGKILL', 'SIGTERM', 'SIGSTOP', 'cut connections', 'freeze', 'refuse']
const OUTCOMES = [
  'handled',
  'already_handled',
  'failed',
  'dead_letter',
  'extended',
  'expired',
  'redelivered',
  'returned: row_not_found',
  'returned: database',
  'returned: threw',
  'returned: stopping',
  'returned: group_stopped',
]
const RECOVERED = ['reclaimed', 'redriven', 'resent']

export function mustHappen({ refusesStaleHandles }: Plan): string[] {
  return [
    ...STRIKES.map((strike) => `strike: ${strike}`),
    ...Object.keys(CUT_REPLIES).map((statement) => `reply cut: ${statement}`),
    ...FAULTS.map((fault) => `SQS: ${fault}`),
    ...(refusesStaleHandles ? ['SQS: stale handle'] : []),
    ...OUTCOMES.map((outcome) => `message: ${outcome}`),
    ...RECOVERED.map((what) => `recovery: ${what}`),
  ]
}

export function checkCoverage(plan: Plan, counts: ReadonlyMap<string, number>): Finding {
  const names = mustHappen(plan)
  const never = names.filter((name) => (counts.get(name) ?? 0) === 0)
  return { promise: 'everything that should happen did', checked: names.length, broken: never }
}
