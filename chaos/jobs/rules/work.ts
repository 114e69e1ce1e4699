/** Rules for work: acknowledged work ends once, rolled-back work never existed. */
import { type Finding, finding } from '../../common/finding.ts'
import { type History, type Span, touches, type Work } from '../history.ts'
import { workloadOf } from '../workloads/all.ts'

export function isInTail({ tails }: History, { from, to }: Span): boolean {
  return touches(tails, from, to)
}

export function workRules(history: History): Finding[] {
  const works = [...history.works.values()]
  const acked = works.filter((work) => work.acked !== undefined && !isInTail(history, work.acked))
  const undone = works.filter(({ lines, acked }) => acked === undefined && lines.some(({ e }) => e === 'rolls back'))
  const seen = works.filter(({ rows }) => rows.length > 0)
  return [
    finding(
      'work that was acknowledged has ended',
      acked.length,
      acked.flatMap((work) => notEnded(history, work)),
    ),
    finding(
      'work that was rolled back or refused never appears',
      undone.length,
      undone
        .filter(({ rows, runs }) => rows.length + runs.length > 0)
        .map((work) => violation(work, 'it was rolled back, and it is there')),
    ),
    finding(
      'a piece of work is one job',
      seen.length,
      works.filter(({ rows }) => rows.length > 1).map((work) => violation(work, `it is ${work.rows.length} rows`)),
    ),
    finding(
      'work that leaves no row ran as one job',
      works.filter(({ workload, runs }) => workloadOf(workload).forgets && runs.length > 0).length,
      works
        .filter((work) => workloadOf(work.workload).forgets && !hasRunInTail(history, work))
        .filter(({ runs }) => new Set(runs.map(({ job }) => job)).size > 1)
        .map((work) => violation(work, 'several jobs ran')),
    ),
    finding(
      'work ends as its handler says',
      seen.length,
      seen.flatMap((work) => work.rows.flatMap((row) => wrongEnd(history, work, row.id))),
    ),
  ]
}

/** In the tail that was lost. It is counted apart. */
export function lostInTails(history: History): Work[] {
  return [...history.works.values()].filter(
    (work) => work.acked !== undefined && isInTail(history, work.acked) && work.rows.length === 0,
  )
}

function hasRunInTail(history: History, { runs, acked }: Work): boolean {
  if (acked !== undefined && isInTail(history, acked)) return true
  return runs.some(({ startedAt, endedAt }) => touches(history.tails, startedAt, endedAt))
}

function notEnded(_history: History, work: Work): string[] {
  const { rows, runs, workload } = work
  if (rows.length === 0) {
    // Nothing is left of it, which is right if a handler had done it.
    if (workloadOf(workload).forgets && runs.some(({ how }) => how === 'returned')) return []
    return [violation(work, 'it is gone')]
  }
  return rows
    .filter(({ status }) => ['pending', 'processing'].includes(status))
    .map(({ status }) => violation(work, status))
}

function wrongEnd({ rows, rowOf }: History, work: Work, id: string): string[] {
  const row = rowOf.get(id)!
  const end = row.status === 'dead_letter' ? row.reason! : row.status
  if (row.status === 'pending' || row.status === 'processing') return []
  const isCancelled = rows.actions.some(({ action, job }) => action === 'cancel' && job === id)
  if (end === 'cancelled' && isCancelled) return []
  if (!workloadOf(work.workload).ends(work).includes(end)) return [violation(work, `it ended as ${end}`)]
  const isExhausted = ['attempts_exhausted', 'lease_expired'].includes(end)
  return isExhausted && row.attempts !== row.maxAttempts
    ? [violation(work, `${end} after ${row.attempts} of ${row.maxAttempts} attempts`)]
    : []
}

const LINES = 14

/** A violation with the story of the work. */
export function violation(work: Pick<Work, 'w' | 'lines'>, what: string): string {
  const story = work.lines.slice(-LINES).map(({ at, p, e, w: _, n: __, ...rest }) => {
    const clock = new Date(at).toISOString().slice(11, 23)
    return `${clock} ${p.padEnd(12)} ${e} ${JSON.stringify(rest).slice(0, 120)}`
  })
  return [`${work.w}: ${what}`, ...story].join('\n')
}

export function violationOf(history: History, job: string, gen: number | undefined, what: string): string {
  const w = history.workOf(job, gen)
  const work = w === undefined ? undefined : history.works.get(w)
  return violation(
    { w: `job ${job}${w === undefined ? '' : ` (${w})`}`, lines: [...(work?.lines ?? []), ...outcomes(history, job)] },
    what,
  )
}

/** The reports about a job: by its id alone, so after a lost tail they may concern another one. */
function outcomes({ lines }: History, job: string) {
  return lines.filter((line) => line.e === 'reported' && line.job === job)
}
