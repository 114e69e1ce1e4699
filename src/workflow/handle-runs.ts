/** Executes the runs of a workflow: a handler of the jobs that carry them. */
import { IdempotencyConflictError, InvalidOptionError } from '../core/errors.ts'
import type { Kind } from '../core/kind.ts'
import { Cancel, Fatal, Snooze } from '../core/steering.ts'
import { type Handler, handle } from '../worker/handler.ts'
import type { Job } from '../worker/job.ts'
import { RUNNING, type RunningJob } from '../worker/running-job.ts'
import { NotUndoneError, StepFailedError } from './errors.ts'
import { type Journal, journalOf } from './journal.ts'
import { RunningRun } from './running-run.ts'
import { Slice } from './slice.ts'
import type { Workflow } from './workflow.ts'

export interface HandleRunsOptions {
  /** How many runs of this workflow a worker executes at a time, within its own concurrency. Default: no limit of its own. */
  readonly concurrency?: number
}

/** Slices that are executing in this process. */
type Live = Set<{ readonly slice: Slice; readonly journal: Journal }>

/** Executes runs of this version, in the worker process only: `leasehold.worker([handleRuns(checkout)])`. */
export function handleRuns<Input, Parsed, Result>(
  workflow: Workflow<Input, Parsed, Result>,
  options: HandleRunsOptions = {},
): Handler {
  if (typeof workflow?.kind?.name !== 'string') throw new InvalidOptionError('workflow', 'declare it with workflow(…)')
  const of = `handleRuns(${JSON.stringify(workflow.kind.name)})`
  if (workflow.code === undefined) throw new InvalidOptionError(of, 'the workflow is declared without its code')
  const live: Live = new Set()
  const run = (job: Job) => execute(workflow as unknown as Workflow, job, live)
  return { ...handle(workflow.kind as Kind, run, options), undoes: true, onSignal: () => refresh(live) }
}

async function execute(workflow: Workflow, job: Job, live: Live): Promise<unknown> {
  const { held, connection, worker } = (job as unknown as RunningJob)[RUNNING]
  const journal = journalOf(connection, worker)
  const loaded = await journal.load(held.claimed, () => held.leaseIsOurs())
  if (loaded === undefined) throw held.lost()
  // It stays paused, unless an operator has resumed it meanwhile.
  if (loaded.isPaused) throw new Snooze(0)
  const slice = new Slice(workflow, held, loaded, journal)
  const run = new RunningRun(slice, workflow, connection.lane, connection.pool)
  const entry = { slice, journal }
  live.add(entry)
  try {
    return await Promise.race([slice.over, follow(workflow, run, slice, job.input)])
  } finally {
    live.delete(entry)
    slice.close()
  }
}

/** Runs the code to its end, and compensates if it has failed for good or was cancelled. */
async function follow(workflow: Workflow, run: RunningRun, slice: Slice, input: unknown): Promise<unknown> {
  const { cancellation } = slice
  try {
    const result = await Promise.race([workflow.code!(run, input), run.compensated])
    if (run.isCompensating) return await run.compensated
    await slice.ended()
    return result
  } catch (thrown) {
    // Whatever the code makes of it meanwhile.
    const error = run.isCompensating ? await run.compensated.catch((why: unknown) => why) : thrown
    if (error instanceof Cancel || error instanceof NotUndoneError) throw error
    if (cancellation.isCancelled) {
      const why = cancellation.isLate ? 'its deadline has passed' : await reasonOf(slice)
      // First: a branch may be about to start a job.
      await slice.endBranches()
      await run.cancelChildren(why)
      await run.steps.undo(why)
      throw cancellation.isLate ? new Fatal(why) : new Cancel(why)
    }
    if (!isForGood(error)) {
      await slice.abortSteps()
      throw error
    }
    await run.steps.undo(error.message)
    throw error instanceof Fatal ? error : new Fatal(error.message, { cause: error.cause ?? error })
  }
}

function isForGood(error: unknown): error is StepFailedError | IdempotencyConflictError | Fatal {
  return error instanceof StepFailedError || error instanceof IdempotencyConflictError || error instanceof Fatal
}

/** Why it is cancelled. Read now: the request may have come after the slice had begun. */
async function reasonOf(slice: Slice): Promise<string> {
  const { journal, carrier } = slice
  const loaded = await journal.load(carrier.claimed, () => carrier.leaseIsOurs())
  return loaded === undefined ? slice.abandon() : (loaded.cancelled?.reason ?? 'cancelled')
}

/** A signal was sent to a run: those that wait here for one look whether it is theirs. The others find it when they park. */
function refresh(live: Live): void {
  for (const { slice, journal } of live) {
    const { awaited, carrier } = slice
    if (awaited.length === 0) continue
    journal
      .receive(carrier.claimed, awaited, () => carrier.leaseIsOurs())
      .then(
        (signals) => slice.signalled(signals),
        () => {}, // The next signal, or the next claim, looks again.
      )
  }
}
