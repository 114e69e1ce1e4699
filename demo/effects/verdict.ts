/** The checks at the end, when no process is left that could change anything: by the tables, and by the LLM's own record. */
import type { Finding } from '../findings.ts'
import type { Bill } from '../llm.ts'
import {
  CONNECTIONS,
  ENTITIES,
  EVALUATIONS,
  FATES,
  idsOf,
  OVERWRITTEN,
  PAID_TWICE,
  ROWS,
  rowsOf,
  WORKERS,
} from './scale.ts'
import type { Stage } from './stage.ts'

export type Witnesses = Pick<Stage, 'database' | 'llm' | 'queue'>

export function overwrittenIn(act: number): string {
  return `select count(distinct summary_id) from overwritten where summary_id / 100 = ${act}`
}

export function refusedIn(act: number): string {
  return `select count(*) from handled where summary_id / 100 = ${act} and outcome = 'already_handled'`
}

export function openIn(round: number): string {
  return `select count(*) from incident where round = ${round} and is_open`
}

export function doublesIn(round: number): string {
  return `
    select count(*) from (
      select from incident where round = ${round} and is_open group by entity_id having count(*) > 1) as doubles`
}

export function conflictsIn(round: number): string {
  return `select coalesce(sum(conflicts), 0) from guard_count where round = ${round}`
}

export interface ActBill extends Bill {
  readonly rows: number
  readonly overwritten: number
  readonly unfinished: number
}

export async function billOf({ database, llm }: Pick<Witnesses, 'database' | 'llm'>, act: number): Promise<ActBill> {
  const unfinished = `select count(*) from summary where id / 100 = ${act} and (status <> 'completed' or result is null)`
  return {
    ...llm.bill(idsOf(act)),
    rows: await database.count(`select count(*) from summary where id / 100 = ${act}`),
    overwritten: await database.count(overwrittenIn(act)),
    unfinished: await database.count(unfinished),
  }
}

export async function findings({ database, llm, queue }: Witnesses): Promise<Finding[]> {
  const { killed } = rowsOf(3)
  const messages = 3 * ROWS
  const [naive, oneUpdate, twoPhases] = [llm.bill(idsOf(1)), llm.bill(idsOf(2)), llm.bill(idsOf(3))]
  const reclaimed = `
    select count(*) from summary where id in (${killed.join()}) and attempt_count > 0 and status = 'completed'`
  const all: [what: string, found: number | string, expected: number][] = [
    ['messages delivered twice or more', queue.deliveredAtLeast(2), messages],
    ['rows finished', `select count(*) from summary where status = 'completed' and result is not null`, messages],
    ['naive: rows paid for twice', naive.rowsPaidTwice, PAID_TWICE],
    ['naive: finished results overwritten', overwrittenIn(1), OVERWRITTEN],
    ['one UPDATE: rows paid for twice', oneUpdate.rowsPaidTwice, PAID_TWICE],
    ['one UPDATE: finished results overwritten', overwrittenIn(2), 0],
    ['one UPDATE: late results, answered "already handled"', refusedIn(2), OVERWRITTEN],
    ['two phases: calls, with those that were cut off', twoPhases.calls, ROWS + FATES.killed],
    ['two phases: rows paid for twice', twoPhases.rowsPaidTwice, 0],
    ['two phases: finished results overwritten', overwrittenIn(3), 0],
    ['two phases: rows of the killed worker, taken back', reclaimed, FATES.killed],
    ['two phases: their second calls, known by key', llm.knownByKey(killed), FATES.killed],
    ['without the guard: entities with more than one incident', doublesIn(1), ENTITIES],
    ['with the guard: entities with more than one incident', doublesIn(2), 0],
    ['with the guard: open incidents', openIn(2), ENTITIES],
    ['with the guard: writes refused', conflictsIn(2), EVALUATIONS - ENTITIES],
    [
      `evaluations at once, over ${WORKERS * CONNECTIONS} connections`,
      'select min(evaluations) from evaluating',
      EVALUATIONS,
    ],
    ['connections in use or waited for meanwhile', 'select sum(busy) from evaluating', 0],
  ]
  const answers: Finding[] = []
  for (const [what, found, expected] of all) {
    answers.push({ what, expected, found: typeof found === 'number' ? found : await database.count(found) })
  }
  return answers
}
