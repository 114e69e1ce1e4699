import { LeaseholdError } from '../core/errors.ts'
import { Fatal } from '../core/steering.ts'

/** Thrown by run.step() when the step has failed for good, in this attempt or an earlier one. */
export class StepFailedError extends LeaseholdError {
  readonly code = 'STEP_FAILED'
  override readonly name = 'StepFailedError'
  readonly step: string

  constructor(step: string, { name, message }: { readonly name?: string; readonly message?: string }) {
    super(`Step ${JSON.stringify(step)} has failed: ${name ?? 'Error'}: ${message ?? ''}`)
    this.step = step
    // As it is on record: the first attempt sees the same error as every later one.
    this.cause = { name, message }
  }
}

/** As it is on record of a step or wait. */
export function tooLarge(what: string, bytes: number): string {
  const message = `${what} is larger than ${bytes} bytes; store it elsewhere and return its address`
  return JSON.stringify({ name: 'ResultTooLarge', message })
}

/** The code of a workflow does not reach steps that a run has on record. Nothing was done. */
export class WorkflowChangedError extends LeaseholdError {
  readonly code = 'WORKFLOW_CHANGED'
  override readonly name = 'WorkflowChangedError'
  readonly unreached: readonly string[]

  constructor(workflow: string, unreached: readonly string[]) {
    super(
      `A run of ${workflow} has recorded ${unreached.map((name) => JSON.stringify(name)).join(', ')}, which this code does not reach. ` +
        'Keep the old names for open runs, use run.patched(), or raise the version. Nothing was done.',
    )
    this.unreached = unreached
  }
}

/** There is no run of this id, or it is past its retention. */
export class RunNotFoundError extends LeaseholdError {
  readonly code = 'RUN_NOT_FOUND'
  override readonly name = 'RunNotFoundError'

  constructor(workflow: string, runId: string) {
    super(`There is no run ${JSON.stringify(runId)} of ${workflow}: unknown id, or past its retention.`)
  }
}

/** The run has ended: it takes no more signals, and can be neither paused nor retried. */
export class RunFinishedError extends LeaseholdError {
  readonly code = 'RUN_FINISHED'
  override readonly name = 'RunFinishedError'

  constructor(workflow: string, runId: string) {
    super(`The run ${JSON.stringify(runId)} of ${workflow} has ended. Nothing was changed.`)
  }
}

/** Compensations have failed for good. The run becomes a dead letter, whatever ended it. */
export class NotUndoneError extends Fatal {
  constructor(failed: readonly { readonly name: string; readonly error: string | null }[], why: string) {
    const each = failed.map(({ name, error }) => {
      const cause: { name?: string; message?: string } = JSON.parse(error ?? '{}')
      return `${JSON.stringify(name)} (${cause.name ?? 'Error'}: ${cause.message ?? ''})`
    })
    super(`Not all was undone. Compensations that have failed: ${each.join(', ')}. Why it was undone: ${why}`)
  }
}
