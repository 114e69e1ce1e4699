/** What an operator does to one run. */
import { checkInteger, checkText } from '../core/check.ts'
import { InvalidOptionError } from '../core/errors.ts'
import { checkOptions } from '../core/options.ts'
import { connectionOf } from '../db/connection.ts'
import type { Lane } from '../db/lane.ts'
import type { JobId } from '../jobs/job.ts'
import { type ByOption, cancelOne, checkBy, redriveWhich } from '../jobs/operator.ts'
import { RunFinishedError, RunNotFoundError } from './errors.ts'
import { PAUSE_RUN, REWIND, TERMINATE } from './inspect.sql.ts'
import { findRun, type Named } from './inspect.ts'
import { CHILDREN } from './step.sql.ts'
import { compensationOf } from './steps.ts'

interface RetryOptions {
  /** Which of that name. Default: 1. */
  readonly nth?: number
  /** Who does this, for the record of operator actions. */
  readonly by?: string
}

export type RetryFrom = RetryOptions &
  (
    | {
        /** The name of a step or wait. What was recorded from here on is forgotten. */
        readonly step: string
      }
    | {
        /** The name of a step whose compensation has failed. Only that is forgotten: what else was undone stays so. */
        readonly compensation: string
      }
  )

/** processing: a worker has the run; cancel it first, or wait. */
export type RetriedFrom = 'retried' | 'processing' | 'no_such_step'

/**
 * Forgets what a run has recorded from this step on, or its attempts at one compensation, and lets it go on from there. It must not
 * be executing, nor have completed.
 */
export async function retryFrom(
  leasehold: object,
  workflow: Named,
  runId: string,
  from: RetryFrom,
): Promise<RetriedFrom> {
  const { lane } = connectionOf('retryFrom', leasehold)
  checkOptions('retryFrom', from, ['step', 'compensation', 'nth', 'by'])
  const jobId = await knownRun(lane, workflow, runId)
  const nth = checkInteger('retryFrom.nth', from.nth ?? 1, 1, 2 ** 31 - 1)
  const [row] = await lane.run<'outcome'>(REWIND, [jobId, ...target(from, nth)])
  const outcome = row!.outcome!
  if (outcome === 'not_found') throw new RunFinishedError(workflow.name, runId)
  if (outcome !== 'done') return outcome as RetriedFrom
  await redriveWhich(lane, jobId, from.by === undefined ? {} : { by: from.by })
  return 'retried'
}

/** Its name and number on record, and whether it is a compensation. */
function target(from: RetryFrom, nth: number): [string, number, boolean] {
  if ('step' in from === 'compensation' in from) throw new InvalidOptionError('retryFrom', 'pass step or compensation')
  if ('step' in from) return [checkText('retryFrom.step', from.step, 200), nth, false]
  return [compensationOf(checkText('retryFrom.compensation', from.compensation, 200), nth), 1, true]
}

export interface TerminateOptions {
  readonly reason?: string
  /** Who does this, for the record of operator actions. */
  readonly by?: string
}

/**
 * Ends a run now, as cancelled, without compensation; its open jobs and child runs are cancelled. A worker that executes it loses its
 * lease. For a run that can undo what it did, use leasehold.cancel(jobId).
 */
export async function terminate(
  leasehold: object,
  workflow: Named,
  runId: string,
  options: TerminateOptions = {},
): Promise<'ended' | 'not_found'> {
  const { lane } = connectionOf('terminate', leasehold)
  checkOptions('terminate', options, ['reason', 'by'])
  const jobId = await knownRun(lane, workflow, runId)
  const reason = checkText('terminate.reason', options.reason ?? 'terminated', 1_000)
  const by = checkBy(options.by)
  const [row] = await lane.run<'outcome'>(TERMINATE, [jobId, reason, by])
  const children = await lane.run<'child_id'>(CHILDREN, [jobId])
  for (const { child_id: child } of children) await cancelOne(lane, child as JobId, { reason })
  return row!.outcome as 'ended' | 'not_found'
}

/** Pauses a run: at once if it waits, else at its next wait. Signals are kept for it. */
export function pauseRun(
  leasehold: object,
  workflow: Named,
  runId: string,
  options: ByOption = {},
): Promise<'paused' | 'already_paused'> {
  return setPaused(leasehold, workflow, runId, options, true) as Promise<'paused' | 'already_paused'>
}

/** A run that was paused goes on. */
export function resumeRun(
  leasehold: object,
  workflow: Named,
  runId: string,
  options: ByOption = {},
): Promise<'resumed' | 'not_paused'> {
  return setPaused(leasehold, workflow, runId, options, false) as Promise<'resumed' | 'not_paused'>
}

async function setPaused(leasehold: object, workflow: Named, runId: string, options: ByOption, pauses: boolean) {
  const [name, done, unchanged] = pauses
    ? ['pauseRun', 'paused', 'already_paused']
    : ['resumeRun', 'resumed', 'not_paused']
  const { lane } = connectionOf(name!, leasehold)
  checkOptions(name!, options, ['by'])
  const jobId = await knownRun(lane, workflow, runId)
  const [row] = await lane.run<'outcome'>(PAUSE_RUN, [jobId, pauses, checkBy(options.by)])
  if (row!.outcome === 'not_found') throw new RunFinishedError(workflow.name, runId)
  return row!.outcome === 'done' ? done : unchanged
}

async function knownRun(lane: Lane, workflow: Named, runId: string): Promise<JobId> {
  const jobId = await findRun(lane, workflow, runId)
  if (jobId === undefined) throw new RunNotFoundError(workflow.name, runId)
  return jobId
}
