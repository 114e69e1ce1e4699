/** Rules for operators' actions: their results are true, and paused work does not start. */
import { type Finding, finding } from '../../common/finding.ts'
import { type History, touches } from '../history.ts'
import { violationOf } from './work.ts'

export function operatorRules(history: History): Finding[] {
  const { lines, tails, rowOf, rows } = history
  const survived = (e: string) =>
    lines.filter((line) => line.e === e && !touches(tails, line.askedAt as number, line.at))
  const cancelled = survived('cancel').filter(({ outcome }) => outcome === 'cancelled')
  const redriven = survived('redrive')
  const actions = new Set(rows.actions.map(({ action, job }) => `${action} ${job}`))
  return [
    finding(
      'a cancelled job is cancelled',
      cancelled.length,
      cancelled
        .filter(({ job }) => rowOf.get(job!)?.status !== 'cancelled')
        .map(({ job }) => violationOf(history, job!, undefined, `cancelled, and it is ${rowOf.get(job!)?.status}`)),
    ),
    finding(
      'a redrive is on record, and its job ran or ended again',
      redriven.length,
      redriven
        .filter(({ job, askedAt }) => {
          const row = rowOf.get(job!)
          const hasEnded = row === undefined || (row.endedAt ?? 0) >= (askedAt as number)
          return !actions.has(`redrive ${job}`) || !hasEnded
        })
        .map(({ job }) => violationOf(history, job!, undefined, 'redriven, and nothing came of it')),
    ),
    pauses(history),
  ]
}

/** A statement that claims, and completes before it does, takes so long at most on a busy machine. */
const A_CLAIM_MS = 500

/**
 * No claim between the reply to the pause and the request to resume, by the clock that all share. The time of a claim is the
 * start of its statement. It reads the pauses a little later, and after a lock that it waited for.
 */
function pauses(history: History): Finding {
  const { lines, rows, rowOf, tails, hampered } = history
  const waitedUntilAfter = (began: number, resumed: number) =>
    hampered.some(({ from, to }) => from <= resumed && began <= to && to >= resumed)
  const all = lines.filter(
    ({ e, askedAt, resumedAt, outcome }) =>
      e === 'pause' && outcome === 'paused' && !touches(tails, askedAt as number, resumedAt as number),
  )
  const broken = all.flatMap(({ what, name, pausedAt, resumedAt }) =>
    rows.attempts
      .filter(({ job, startedAt }) => {
        const row = rowOf.get(job)
        const isMeant = row !== undefined && (what === 'queue' ? row.queue : row.kind) === name
        const isWithin = startedAt > (pausedAt as number) && startedAt < (resumedAt as number) - A_CLAIM_MS
        return isMeant && isWithin && !waitedUntilAfter(startedAt, resumedAt as number)
      })
      .map(({ job, generation }) => violationOf(history, job, generation, `claimed while ${what} ${name} was paused`)),
  )
  return finding('nothing of a paused queue or kind is claimed', all.length, broken)
}
