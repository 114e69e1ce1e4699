/** Rules for events and rows: a reported outcome is recorded, and a dead letter is reported. */
import { type Finding, finding } from '../../common/finding.ts'
import type { Line } from '../../common/witness.ts'
import type { JobRow } from '../evidence.ts'
import { claimKey, groupedBy, type History, touches } from '../history.ts'
import { workloadOf } from '../workloads/all.ts'
import { violationOf } from './work.ts'

/** The recorded outcomes of an attempt that fit each reported one. */
const RECORDED_AS: Readonly<Record<string, string>> = {
  completed: 'completed',
  retrying: 'failed',
  dead_letter: 'failed',
  snoozed: 'snoozed',
}
/** The last lines of a killed process are lost, and so are those of a sweep that it was running. */
const LAST_WORDS_MS = 2_000

export function eventRules(history: History): Finding[] {
  const reported = history.lines.filter(({ e }) => e === 'reported')
  const of = (...outcomes: string[]) => reported.filter(({ outcome }) => outcomes.includes(outcome as string))
  return [
    ...['completed', 'retrying', 'snoozed', 'dead_letter'].map((outcome) =>
      finding(`what was reported as ${outcome} is recorded`, of(outcome).length, disagreeing(history, of(outcome))),
    ),
    finding(
      'what was reported as cancelled is cancelled',
      of('cancelled').length,
      of('cancelled')
        .filter((line) => !isExempt(history, line) && history.rowOf.get(line.job!)?.status !== 'cancelled')
        .map((line) => violationOf(history, line.job!, line.gen, 'cancelled was reported')),
    ),
    finding(
      'what was reported as released or refused has no other outcome',
      of('released', 'refused').length,
      of('released', 'refused').flatMap((line) => otherOutcome(history, line)),
    ),
    announced(history, of('dead_letter')),
    finding(
      'what was reported as buried is a dead letter, unless it was redriven',
      buried(history).length,
      buried(history)
        .filter(({ at }) => !touches(history.tails, at - LAST_WORDS_MS, at))
        .flatMap((line) => notDead(history, line)),
    ),
  ]
}

/** From its claim to its report: the commit was in between, and is lost if that span touches a lost tail. */
function isExempt(history: History, { job, gen, at, p }: Line): boolean {
  const run = history.runs.find((each) => each.job === job && each.gen === gen && each.process === p)
  return touches(history.tails, run?.startedAt ?? at, at)
}

function disagreeing(history: History, lines: readonly Line[]): string[] {
  const { tails, attempts, rowOf } = history
  const runs = new Map(history.runs.map((run) => [`${run.process} ${claimKey(run.job, run.gen)}`, run]))
  return lines.flatMap((line) => {
    const { job, gen, at, p } = line as Line & { readonly job: string; readonly gen: number }
    const run = runs.get(`${p} ${claimKey(job, gen)}`)
    // The commit was after the handler's end, or in its transaction.
    if (touches(tails, run?.startedAt ?? at, at)) return []
    const outcome = line.outcome as string
    const recorded = attempts.get(claimKey(job, gen))?.map((attempt) => attempt.outcome) ?? []
    if (recorded.includes(RECORDED_AS[outcome]!)) return outcome === 'dead_letter' ? notDead(history, line) : []
    const w = history.workOf(job, gen)
    const forgets = w !== undefined && workloadOf(history.works.get(w)!.workload).forgets
    if (outcome === 'completed' && forgets && rowOf.get(job) === undefined) return []
    return [
      violationOf(
        history,
        job,
        gen,
        `${outcome} was reported, ${recorded.join() || 'nothing'} is recorded under ${gen}`,
      ),
    ]
  })
}

/** A dead letter stays one until it is redriven. */
function notDead({ rowOf, rows }: History, { job, gen }: Line): string[] {
  const row = rowOf.get(job!)
  if (row?.status === 'dead_letter') return []
  const isRedriven = rows.actions.some(({ action, job: of }) => action === 'redrive' && of === job)
  return isRedriven ? [] : [`job ${job}: a dead letter under ${gen} was reported, it is ${row?.status ?? 'gone'}`]
}

function otherOutcome(history: History, line: Line): string[] {
  const { job, gen, outcome, tried, byHand } = line
  const recorded = history.attempts.get(claimKey(job!, gen!))?.map((attempt) => attempt.outcome) ?? []
  // A refused outcome is not the recorded one; the sweep's is, or a later one's.
  const wrong = outcome === 'released' ? ['completed', 'failed', 'snoozed', 'crashed'] : refusable(tried as string)
  const found = recorded.filter((each) => wrong.includes(each))
  if (found.length === 0 || byHand || isExempt(history, line)) return []
  return [violationOf(history, job!, gen, `${outcome} was reported, ${found.join()} is recorded under ${gen}`)]
}

function refusable(tried: string): string[] {
  if (tried === 'complete') return ['completed']
  return tried === 'snooze' ? ['snoozed'] : tried === 'fail' || tried === 'bury' ? ['failed'] : []
}

/** By sweep or expiry. */
function buried({ lines }: History): Line[] {
  return lines.filter(({ e }) => e === 'buried')
}

/** A process that claims by hand has no events: its log names the jobs that its sweep or expiry has buried. */
function loggedAsDead({ lines }: History): Line[] {
  return lines.filter(({ e, message }) => e === 'log' && String(message).includes('is a dead letter'))
}

/** Every dead letter was reported by some process. */
function announced(history: History, reported: readonly Line[]): Finding {
  const byJob = groupedBy(reported, ({ job }) => job!)
  const bySweep = new Set([...buried(history), ...loggedAsDead(history)].map(({ job }) => job))
  const dead = history.rows.jobs.filter(({ status }) => status === 'dead_letter')
  return finding(
    'every dead letter was reported',
    dead.length,
    dead
      .filter((row) => !byJob.has(row.id) && !bySweep.has(row.id) && !wasSilenced(history, row))
      .map((row) =>
        violationOf(history, row.id, row.generation, `a dead letter (${row.reason}) that was not reported`),
      ),
  )
}

function isBySweep(reason: string | null): boolean {
  return reason === 'lease_expired' || reason === 'expired'
}

/**
 * The process that buried it was killed before it could report it, or was in a lost tail. The row has the time at which its
 * statement began: one that waited for a lock committed later.
 */
function wasSilenced(history: History, { claimedBy, reason, endedAt }: JobRow): boolean {
  const began = endedAt ?? 0
  const waits = history.hampered.filter(({ from, to }) => from <= began + LAST_WORDS_MS && began <= to)
  const committed = Math.max(began, ...waits.map(({ to }) => to))
  if (touches(history.tails, began - LAST_WORDS_MS, committed + LAST_WORDS_MS)) return true
  const process = history.processOf(claimedBy)
  const suspects = isBySweep(reason) ? [...history.processes.values()] : process === undefined ? [] : [process]
  return suspects.some(
    ({ isKilled, endedAt: diedAt }) =>
      isKilled && began - LAST_WORDS_MS <= diedAt && diedAt <= committed + LAST_WORDS_MS,
  )
}
