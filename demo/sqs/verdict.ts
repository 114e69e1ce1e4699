/**
 * The checks at the end, when no consumer is left that could change anything: by the table, SQS and the LLM's own record.
 */
import type { Finding } from '../findings.ts'
import { OPENED_TWICE, YIELDS } from './incidents.ts'
import type { DeadLetter } from './queue.ts'
import { ALL_ROWS, CONCURRENCY, POISON, ROWS } from './scale.ts'
import { refused, type Stage, type Told } from './story.ts'

export const OVERWRITTEN = 'select count(*) from overwritten'

/** Each costs an attempt. */
export function reclaimed(ids: readonly number[]): string {
  return `select count(*) from summary where id in (${ids.join()}) and attempt_count > 0`
}

function completed(ids: readonly number[]): string {
  return `select count(*) from summary where id in (${ids.join()}) and status = 'completed' and result is not null`
}

const TAKEN_BACK = 'their rows, taken back by recovery'
const KNOWN_BY_KEY = 'calls made again that the LLM knew by their key'
const YIELDED = 'writers that yielded to the other service, messages deleted'
/** Without a claim there are no rows to reclaim, without a key no known calls, without a guard no writer that yields. */
export const NEEDS_CLAIM_OR_KEY: readonly string[] = [TAKEN_BACK, KNOWN_BY_KEY, YIELDED]

export type Witnesses = Pick<Stage, 'database' | 'queue' | 'llm' | 'crew'>

export async function findings({ database, queue, llm, crew }: Witnesses, told: Told): Promise<Finding[]> {
  const { interrupted, late, guarded } = told
  const cutOff = 2 * CONCURRENCY // By kill -9 and by SIGSTOP.
  const bill = llm.bill(ALL_ROWS)
  const letters = await queue.deadLetters()
  const wasEarly = crew.settled.some(({ id, reason }) => id === ROWS.early && reason === 'row_not_found')
  const all: [what: string, found: number | string, expected: number][] = [
    ['rows completed', completed(ALL_ROWS), ALL_ROWS.length],
    ['summaries billed by the LLM', bill.billed, ALL_ROWS.length],
    ['rows billed twice or more', bill.rowsPaidTwice, 0],
    ['finished results overwritten', OVERWRITTEN, 0],
    ['messages of the killed and the stopped, delivered again', crew.deliveredAgain(interrupted).length, cutOff],
    [TAKEN_BACK, reclaimed(ALL_ROWS), cutOff],
    [`calls of the LLM: ${ALL_ROWS.length}, and ${cutOff} again for these rows`, bill.calls, ALL_ROWS.length + cutOff],
    [KNOWN_BY_KEY, llm.knownByKey(ALL_ROWS), cutOff],
    ['late commits of the stopped consumer, refused', refused(late), CONCURRENCY],
    ['early message: handed back until its row was there', wasEarly ? completed([ROWS.early]) : 0, 1],
    ['lost message: sent by recovery', completed([ROWS.lost]), 1],
    ['dead letters: the poison, with its reason', letters.filter(isPoison).length, 1],
    ['dead letters: any other', letters.filter((letter) => !isPoison(letter)).length, 0],
    ['messages left in the queue', await queue.left(), 0],
    ['entities with two open incidents', OPENED_TWICE, 0],
    [YIELDED, guarded.yielded, YIELDS],
    ['messages behind them that evaluated anew', guarded.evaluatedAnew, YIELDS],
  ]
  const answers: Finding[] = []
  for (const [what, found, expected] of all) {
    answers.push({ what, expected, found: typeof found === 'number' ? found : await database.count(found) })
  }
  return answers
}

function isPoison({ body, reason }: DeadLetter): boolean {
  return body === POISON && reason === 'not_json'
}
