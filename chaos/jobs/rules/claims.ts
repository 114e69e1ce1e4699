/** Rules for claims: one outcome each, rising generations, never two at a time. */
import { type Finding, finding } from '../../common/finding.ts'
import type { AttemptRow } from '../evidence.ts'
import { claimKey, groupedBy, type HandlerRun, type History, touches } from '../history.ts'
import { violationOf } from './work.ts'

/** Milliseconds are rounded. */
const ROUNDING_MS = 2
/** A worker renews at a third of its lease: a shorter disturbance cannot cost the lease. */
const HARMLESS_STALL_MS = 250
/** After a fault a worker reconnects, and queries the outcome of its statements. */
const AFTER_FAULT_MS = 2_500

/** When a handler started, by its claim. */
type Starts = ReadonlyMap<string, number>

export function claimRules(history: History): Finding[] {
  const { runs, rows } = history
  const byJob = [...groupedBy(rows.attempts, ({ job }) => job).values()]
  const crashed = rows.attempts.filter(({ outcome }) => outcome === 'crashed')
  const starts: Starts = new Map(runs.map(({ job, gen, startedAt }) => [claimKey(job, gen), startedAt]))
  return [
    finding('a claim has at most one outcome', history.attempts.size, twoOutcomes(history)),
    finding('a job is started once for each claim', runs.length, startedTwice(history)),
    finding(
      'generations of a job rise',
      byJob.length,
      byJob.flatMap((own) => notRising(history, own)),
    ),
    finding(
      'no two leases on a job at a time',
      byJob.length,
      byJob.flatMap((own) => leasesAtOnce(history, starts, own)),
    ),
    finding('handlers of a job overlap only while one stood still', runs.length, handlersAtOnce(history)),
    finding(
      'a lease is reclaimed only when it has expired',
      crashed.length,
      crashed
        .filter(({ startedAt, endedAt }) => endedAt - startedAt < history.leaseMs - ROUNDING_MS)
        .map((own) =>
          violationOf(history, own.job, own.generation, `reclaimed after ${ms(own.endedAt - own.startedAt)}`),
        ),
    ),
    finding(
      'only a worker that died, stood still or was cut off loses a lease',
      crashed.length,
      crashed
        .filter((own) => !isExcused(history, own))
        .map((own) => violationOf(history, own.job, own.generation, 'its worker lived, and nothing was in its way')),
    ),
    finding(
      'attempts stay within their number',
      rows.jobs.length,
      rows.jobs
        .filter(({ attempts, maxAttempts }) => attempts > maxAttempts)
        .map(({ id, attempts, maxAttempts }) => violationOf(history, id, undefined, `${attempts} of ${maxAttempts}`)),
    ),
  ]
}

function ms(value: number): string {
  return `${Math.round(value)} ms`
}

/** Recorded outcomes, and outcomes that were reported. */
function twoOutcomes(history: History): string[] {
  const recorded = [...history.attempts.values()].filter(({ length }) => length > 1)
  const final = history.lines.filter(
    ({ e, outcome }) => e === 'reported' && outcome !== 'refused' && outcome !== 'unknown',
  )
  const toldTwice = [...groupedBy(final, ({ job, gen }) => claimKey(job!, gen!)).values()].filter(
    ({ length }) => length > 1,
  )
  return [
    ...recorded.map((all) => {
      const { job, generation } = all[0]!
      return violationOf(
        history,
        job,
        generation,
        `${all.map(({ outcome }) => outcome).join(' and ')} under ${generation}`,
      )
    }),
    ...toldTwice.map((all) => {
      const { job, gen } = all[0]!
      return violationOf(history, job!, gen, `${all.map(({ outcome }) => outcome).join(' and ')} reported of ${gen}`)
    }),
  ]
}

function startedTwice(history: History): string[] {
  const claims = groupedBy(history.runs, ({ job, gen }) => claimKey(job, gen))
  return [...claims.values()]
    .filter(({ length }) => length > 1)
    .map((runs) => violationOf(history, runs[0]!.job, runs[0]!.gen, `${runs.length} starts under ${runs[0]!.gen}`))
}

/**
 * Attempts end in the order of their generations, and the row has the highest. They need not begin in that order: that time
 * is the beginning of the claim's statement, which may have waited while another claim began and ended.
 */
function notRising(history: History, own: readonly AttemptRow[]): string[] {
  const sorted = own.toSorted((one, other) => one.generation - other.generation)
  const broken = sorted.flatMap(({ job, generation, endedAt }, index) => {
    const next = sorted[index + 1]
    return next !== undefined && next.endedAt < endedAt - ROUNDING_MS
      ? [violationOf(history, job, generation, `${next.generation} had ended before ${generation} did`)]
      : []
  })
  const { job, generation: highest } = sorted.at(-1)!
  const row = history.rowOf.get(job)
  if (row !== undefined && row.generation < highest)
    broken.push(violationOf(history, job, highest, `the row is at ${row.generation}, an attempt at ${highest}`))
  return broken
}

/**
 * A handler ran under a claim before the statement began that ended the claim before it. Both clocks are the machine's. The
 * time of the claim itself proves nothing, as above.
 */
function leasesAtOnce(history: History, starts: Starts, own: readonly AttemptRow[]): string[] {
  const sorted = own.toSorted((one, other) => one.generation - other.generation)
  return sorted.flatMap(({ job, generation, endedAt }, index) => {
    const next = sorted[index + 1]?.generation
    const startedAt = next === undefined ? undefined : starts.get(claimKey(job, next))
    return startedAt !== undefined && startedAt < endedAt - ROUNDING_MS
      ? [violationOf(history, job, next, `started while generation ${generation} had it`)]
      : []
  })
}

/**
 * The later generation started before the earlier handler had ended. That is right only if the earlier one had been
 * aborted, or its process was suspended and could not abort it, or its renewals were lost with a tail of the WAL: the
 * library promises that such a worker is refused, not that it knows at once.
 */
function handlersAtOnce(history: History): string[] {
  return [...groupedBy(history.runs, ({ w, job }) => `${job} ${w}`).values()].flatMap((runs) => {
    const sorted = runs.toSorted((one, other) => one.gen - other.gen)
    return sorted.flatMap((earlier, index) =>
      sorted
        .slice(index + 1)
        .filter((later) => later.gen > earlier.gen && isOverlap(history, earlier, later))
        .map((later) =>
          violationOf(history, later.job, later.gen, `${later.process} ran it while ${earlier.process} did`),
        ),
    )
  })
}

function isOverlap({ processes, tails }: History, earlier: HandlerRun, later: HandlerRun): boolean {
  if (later.startedAt >= earlier.endedAt) return false
  if (earlier.abortedAt !== undefined && earlier.abortedAt <= later.startedAt) return false
  // The claim was lost, not the start: the job may have waited in its worker until the failover was over. Its generation is
  // the time of its claim.
  if (touches(tails, Math.min(earlier.gen, earlier.startedAt), later.startedAt)) return false
  const { stalls, isKilled, endedAt } = processes.get(earlier.process)!
  // Its last moments before it was killed are not in its own file.
  if (isKilled && earlier.how === 'killed' && endedAt <= later.startedAt + HARMLESS_STALL_MS) return false
  return !touches(stalls, Math.min(earlier.startedAt, later.startedAt), Math.max(earlier.startedAt, later.startedAt))
}

function isExcused(history: History, { worker, startedAt, endedAt }: AttemptRow): boolean {
  const process = history.processOf(worker)
  if (process === undefined || process.endedAt <= endedAt) return true
  const stalled = process.stalls
    .filter(({ from, to }) => from <= endedAt && startedAt <= to)
    .reduce((sum, { from, to }) => sum + Math.min(to, endedAt) - Math.max(from, startedAt), 0)
  if (stalled >= HARMLESS_STALL_MS) return true
  return touches(history.hampered, startedAt - AFTER_FAULT_MS, endedAt) || touches(history.tails, startedAt, endedAt)
}
