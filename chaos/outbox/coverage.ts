/** A run that misses an event proves nothing about it. */
import { count } from '../common/counts.ts'
import { groupedBy, type History } from './checker.ts'
import { DAY_PASSES, FAULTS } from './plan.ts'

const RARE = [
  'events: rolled back',
  'events: dropped by retention',
  'events: dead letters',
  'events: parked',
  'relay: sent again',
  'relay: acknowledgements lost',
  'consumer: delivered again',
  'consumer: already handled',
  'keys: unblocked',
]

/** Faults by how often they had an effect, and what became of the events. */
export function countsOf({ lines, rows }: History): Map<string, number> {
  const counts = new Map<string, number>()
  const of = (e: string) => lines.filter((line) => line.e === e)
  const names = (e: string) => of(e).flatMap((line) => line.names as string[])
  const sends = of('sends').flatMap(({ to, ids }) => (ids as string[]).map((id) => `${to} ${id}`))
  const deliveries = of('delivered').map(({ to, id }) => `${to} ${id}`)
  const letters = rows.unsent.filter(({ status }) => status === 'dead_letter')
  count(counts, 'events: committed', rows.committed.length)
  count(counts, 'events: rolled back', names('rolled back').length)
  count(counts, 'events: of producers that died', names('dies').length)
  count(counts, 'events: dead letters', letters.filter(({ reason }) => reason === 'fatal').length)
  count(counts, 'events: parked', letters.filter(({ reason }) => reason === 'parked').length)
  count(counts, 'events: dropped by retention', rows.committed.length - rows.stored)
  count(counts, 'relay: sends', sends.length)
  count(counts, 'relay: sent again', sends.length - new Set(sends).size)
  count(counts, 'relay: acknowledgements lost', of('unsent').length)
  count(counts, 'consumer: deliveries', deliveries.length)
  count(counts, 'consumer: delivered again', deliveries.length - new Set(deliveries).size)
  count(counts, 'consumer: already handled', of('duplicate').length)
  count(counts, 'consumer: effects', rows.effects.length)
  for (const [reason, all] of groupedBy(of('returned'), ({ reason }) => String(reason)))
    count(counts, `returned: ${reason}`, all.length)
  count(counts, 'keys: unblocked', of('unblock').length)
  count(counts, 'processes: started', of('ready').length)
  for (const { fault } of of('fault').filter(({ bit }) => bit)) count(counts, `fault: ${fault}`)
  for (const { error } of of('fault').filter(({ error }) => error)) count(counts, `harness: ${error}`)
  return counts
}

export function mustHappen(): string[] {
  return [...FAULTS.map(({ name }) => `fault: ${name}`), `fault: ${DAY_PASSES}`, ...RARE]
}

/** Expected events that never happened. */
export function missing(counts: ReadonlyMap<string, number>): string[] {
  return mustHappen().filter((name) => (counts.get(name) ?? 0) === 0)
}
