/** A run that misses an event proves nothing about it. */
import { count } from '../common/counts.ts'
import { FAULTS } from './faults/deck.ts'
import type { History } from './history.ts'
import { lostInTails } from './rules/work.ts'

const REPORTED = ['completed', 'retrying', 'dead_letter', 'snoozed', 'cancelled', 'released', 'refused']
const ENDED = ['completed', 'cancelled', 'attempts_exhausted', 'fatal', 'expired']
const RARE = [
  'work: rolled back',
  'work: lost with a WAL tail',
  'work: answered existing',
  'work: answered conflict',
  'jobs: reclaimed by the sweep',
  'jobs: handled by hand',
  'operator: cancelled',
  'operator: requested',
  'operator: redriven',
  // As the processes saw them.
  'errors: 25006',
  'errors: 53300',
]

/** Faults by how often they had an effect, and the outcomes of the work. */
export function countsOf(history: History): Map<string, number> {
  const { lines, rows, works, runs, processes } = history
  const counts = new Map<string, number>()
  const all = [...works.values()]
  count(counts, 'work: planned', all.length)
  count(counts, 'work: acknowledged', all.filter(({ acked }) => acked !== undefined).length)
  count(counts, 'work: lost with a WAL tail', lostInTails(history).length)
  count(counts, 'jobs: handler starts', runs.length)
  count(counts, 'jobs: processes', processes.size)
  for (const { e, fault, bit, outcome, byHand, error, how } of lines) {
    if (e === 'fault') count(counts, `fault: ${fault}`, bit ? 1 : 0)
    if (e === 'rolled back') count(counts, 'work: rolled back')
    if (e === 'asked again' || e === 'asked with another input') count(counts, `work: answered ${outcome}`)
    if (e === 'reported') count(counts, `reported: ${outcome}`)
    if (e === 'reported' && byHand) count(counts, 'jobs: handled by hand')
    if (e === 'cancel') count(counts, `operator: ${outcome}`)
    if (e === 'redrive') count(counts, 'operator: redriven')
    if (e === 'repaired') count(counts, 'jobs: repaired (known defect)')
    if (e === 'stopped') count(counts, 'jobs: processes stopped and resumed')
    const code = e === 'ended' ? how : error
    if (code === '25006' || code === '53300') count(counts, `errors: ${code}`)
  }
  for (const { status, reason } of rows.jobs) count(counts, `ended: ${status === 'dead_letter' ? reason : status}`)
  count(counts, 'jobs: reclaimed by the sweep', rows.attempts.filter(({ outcome }) => outcome === 'crashed').length)
  return counts
}

export function mustHappen(): string[] {
  return [
    ...FAULTS.map(({ name }) => `fault: ${name}`),
    ...REPORTED.map((outcome) => `reported: ${outcome}`),
    ...ENDED.map((end) => `ended: ${end}`),
    ...RARE,
  ]
}

/** Expected events that never happened. */
export function missing(counts: ReadonlyMap<string, number>): string[] {
  return mustHappen().filter((name) => (counts.get(name) ?? 0) === 0)
}
