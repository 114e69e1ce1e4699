/** A run that misses an event proves nothing about it. */
import { count } from '../common/counts.ts'
import type { Line } from '../common/witness.ts'
import { FAULTS } from './plan.ts'
import { winnerOf } from './rules/ends.ts'
import { factsOf, type History, hasEnded } from './rules/history.ts'

const RARE = [
  'runs: completed',
  'runs: cancelled',
  'runs: dead_letter',
  'runs: children',
  'runs: that changed workers',
  'starts: rolled back',
  'starts: of starters that died',
  'starts: existing',
  'starts: conflict',
  'steps: retried',
  'steps: executed again',
  'steps: undone',
  'steps: executed and not recorded',
  'tx: executed again',
  'signals: received',
  'signals: duplicate',
  'signals: rolled back',
  'signals: left',
  'waits: the signal came first',
  'waits: the time came first',
  'waits: sleeps',
  'jobs: completed',
  'jobs: dead_letter',
  'operator: requested',
  'operator: paused',
  'operator: resumed',
  'worker: lost a lease',
]

/** Faults by how often they had an effect, and what became of the runs. */
export function countsOf(history: History): Map<string, number> {
  const facts = factsOf(history)
  const { lines, rows, expected } = facts
  const counts = new Map<string, number>()
  const of = (e: string) => lines.filter((line) => line.e === e)
  for (const { row } of expected) count(counts, `runs: ${row?.status ?? 'missing'}`)
  const changed = expected.filter(({ steps }) => new Set(steps.map(({ workerId }) => workerId)).size > 1)
  count(counts, 'runs: children', expected.filter(({ run }) => run.includes('/')).length)
  count(counts, 'runs: slices', of('slice').length)
  count(counts, 'runs: that changed workers', changed.length)
  count(counts, 'starts: rolled back', of('rolled back').length)
  count(counts, 'starts: of starters that died', of('dies').filter(({ p }) => p.startsWith('starter')).length)
  for (const { outcome } of of('started')) count(counts, `starts: ${outcome}`)
  for (const { outcome } of of('other')) count(counts, `starts: ${outcome}`)
  const steps = expected.flatMap((each) => each.steps)
  const tokens = new Set(steps.map(({ result }) => (result as { by?: string } | null)?.by))
  count(counts, 'steps: on record', steps.filter(hasEnded).length)
  count(counts, 'steps: retried', steps.filter(({ state }) => state === 'retrying').length)
  count(counts, 'steps: undone', steps.filter((step) => step.type === 'compensation' && hasEnded(step)).length)
  const unrecorded = facts.executions.filter(({ token, threw, endedAt }) => {
    return endedAt !== undefined && !threw && !tokens.has(token)
  })
  count(counts, 'steps: executed and not recorded', unrecorded.length)
  for (const [key, all] of facts.executionsOf) {
    const again = all.filter((_, index) => index > 0 && !all[index - 1]!.threw).length
    if (again > 0) count(counts, key.split(' ')[1] === 'tx' ? 'tx: executed again' : 'steps: executed again', again)
  }
  count(counts, 'signals: received', steps.filter(({ signal }) => signal !== null).length)
  count(counts, 'signals: left', rows.signals.filter(({ consumed }) => !consumed).length)
  for (const { outcome } of of('signal')) count(counts, `signals: ${String(outcome).split(':')[0]}`)
  for (const each of expected)
    for (const step of each.steps.filter(({ type }) => type === 'any')) {
      const came = winnerOf([step], step.name.split(' came|')[0]!)?.endsWith('came')
      count(counts, came ? 'waits: the signal came first' : 'waits: the time came first')
    }
  count(counts, 'waits: sleeps', steps.filter((step) => step.type === 'sleep' && hasEnded(step)).length)
  for (const { status } of rows.jobs) count(counts, `jobs: ${status}`)
  for (const { outcome } of [...of('cancel'), ...of('operator')]) count(counts, `operator: ${outcome}`)
  for (const { outcome } of of('reported')) count(counts, `worker: ${outcome}`)
  const isLoss = ({ outcome, reason }: Line) => outcome === 'refused' || reason === 'lease_lost'
  count(counts, 'worker: lost a lease', of('reported').filter(isLoss).length)
  count(counts, 'processes: started', of('ready').length)
  for (const { fault } of of('fault').filter(({ bit }) => bit)) count(counts, `fault: ${fault}`)
  for (const { error } of of('fault').filter(({ error }) => error)) count(counts, `harness: ${error}`)
  return counts
}

export function mustHappen(): string[] {
  return [...FAULTS.map(({ name }) => `fault: ${name}`), ...RARE]
}

/** Expected events that never happened. */
export function missing(counts: ReadonlyMap<string, number>): string[] {
  return mustHappen().filter((name) => (counts.get(name) ?? 0) === 0)
}
