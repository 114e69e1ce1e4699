/** Starting runs and sending them signals, from any process. */
import { randomUUID } from 'node:crypto'
import { checkText } from '../core/check.ts'
import { InvalidOptionError } from '../core/errors.ts'
import type { Kind } from '../core/kind.ts'
import { checkOptions } from '../core/options.ts'
import { encodeInput } from '../core/storable.ts'
import { connectionOf } from '../db/connection.ts'
import type { Tx } from '../db/tx.ts'
import { inTurn } from '../db/tx-line.ts'
import type { Enqueued } from '../jobs/enqueue.ts'
import type { JobId } from '../jobs/job.ts'
import { RunFinishedError, RunNotFoundError } from './errors.ts'
import { SIGNAL } from './step.sql.ts'
import type { Workflow } from './workflow.ts'

export interface StartOptions {
  /** Your open transaction: the run exists exactly when it commits. Default: a transaction of its own. */
  readonly tx?: Tx
  /** Unique among the runs of the workflow while they are kept, such as `checkout:9182`. Default: a random UUID. */
  readonly runId?: string
  /** Default: the workflow's. */
  readonly priority?: number
}

export interface Started<Result = unknown> {
  readonly runId: string
  /** The job that carries the run, for leasehold.waitFor(), get(), cancel() and redrive(). */
  readonly jobId: JobId<Result>
  /** existing: a run of this id was started before, with the same input. */
  readonly outcome: 'created' | 'existing'
}

/** The part of Leasehold that is used here. */
interface Enqueues {
  enqueue<Input, Result>(
    kind: Kind<Input, unknown, Result>,
    input: NoInfer<Input>,
    options: { readonly tx?: Tx; readonly idempotencyKey: string; readonly priority?: number },
  ): Promise<Enqueued<Result>>
}

/** Starts a run. Throws IdempotencyConflictError if the id belongs to a run with another input. */
export async function start<Input, Parsed, Result>(
  leasehold: Enqueues,
  workflow: Workflow<Input, Parsed, Result>,
  input: NoInfer<Input>,
  options: StartOptions = {},
): Promise<Started<Result>> {
  checkWorkflow(workflow)
  checkOptions('start', options, ['tx', 'runId', 'priority'])
  const { runId = randomUUID(), ...others } = options
  const kind = workflow.kind as Kind<Input, unknown, Result>
  const { jobId, outcome } = await leasehold.enqueue(kind, input, { ...others, idempotencyKey: runId })
  return { runId, jobId, outcome }
}

export interface SignalOptions {
  /** Your open transaction: the signal is sent exactly when it commits. Default: a transaction of its own. */
  readonly tx?: Tx
  /** A second signal of this name with the same key is dropped. */
  readonly idempotencyKey?: string
}

/**
 * Sends a signal to a run. It is kept until the run waits for it. Throws RunNotFoundError, or RunFinishedError. Senders do not wait for
 * each other, nor for the run.
 */
export async function signal(
  leasehold: object,
  workflow: { readonly name: string; readonly kind: { readonly name: string } },
  runId: string,
  name: string,
  payload?: unknown,
  options: SignalOptions = {},
): Promise<'sent' | 'duplicate'> {
  const connection = connectionOf('signal', leasehold)
  checkWorkflow(workflow)
  checkOptions('signal', options, ['tx', 'idempotencyKey'])
  const { tx, idempotencyKey } = options
  const lane = tx === undefined ? connection.lane : connection.lane.within(tx)
  const values = [
    workflow.name,
    checkText('runId', runId, 1_000),
    checkSignalName(name),
    payload === undefined ? null : encodeInput(payload),
    idempotencyKey === undefined ? null : checkText('idempotencyKey', idempotencyKey, 1_000),
  ]
  const send = () => lane.run<'outcome'>(SIGNAL, values)
  const [row] = tx === undefined ? await send() : await inTurn(tx, send)
  const outcome = row!.outcome!
  if (outcome === 'not_found') throw new RunNotFoundError(workflow.name, runId)
  if (outcome === 'finished') throw new RunFinishedError(workflow.name, runId)
  return outcome as 'sent' | 'duplicate'
}

export function checkSignalName(name: string): string {
  if (/^job \d/.test(checkText('signal', name, 200))) {
    throw new InvalidOptionError('signal', 'names such as "job 17" are those of jobs that have ended')
  }
  return name
}

function checkWorkflow(workflow: { readonly kind: { readonly name: string } }): void {
  if (typeof workflow?.kind?.name !== 'string') throw new InvalidOptionError('workflow', 'declare it with workflow(…)')
}
