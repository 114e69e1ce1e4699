/** The options of enqueue() and enqueueMany(), and how a kind and its options become a job to store. */

import { checkDate } from './core/check.ts'
import { type Duration, durationMs } from './core/duration.ts'
import { InvalidOptionError } from './core/errors.ts'
import type { Kind } from './core/kind.ts'
import { checkOptions } from './core/options.ts'
import type { Tx } from './db/tx.ts'
import type { NewJob } from './jobs/enqueue.ts'

export interface EnqueueOptions {
  /** Your open transaction: the job exists exactly when it commits. Default: a transaction of its own. */
  readonly tx?: Tx
  /**
   * One job per queue and key, until the kind's keepKey after it has finished. A second enqueue returns `existing`. If its
   * input differs it throws IdempotencyConflictError, and nothing of the call was enqueued.
   */
  readonly idempotencyKey?: string
  /** return: the outcome `conflict` instead of the error; enqueueMany then enqueues the other jobs. Default: throw. */
  readonly onConflict?: 'throw' | 'return'
  /** Groups related jobs, such as `order:9182`. */
  readonly partitionKey?: string
  /** 0 first, 9 last. Default: the kind's. */
  readonly priority?: number
  /** Earliest start, from now, by the database's clock. */
  readonly delay?: Duration
  /** Earliest start. Mutually exclusive with `delay`. */
  readonly at?: Date
  /** A job not started by then becomes a dead letter. A retried, snoozed or redriven job does not expire. */
  readonly expiresAt?: Date
  readonly metadata?: Readonly<Record<string, unknown>>
}

/** A job for enqueueMany. */
export type ManyOptions<Input> = Omit<EnqueueOptions, 'tx' | 'onConflict'> & { readonly input: Input }

const JOB_OPTIONS = ['idempotencyKey', 'partitionKey', 'priority', 'delay', 'at', 'expiresAt', 'metadata']

export function checkEnqueueOptions(options: EnqueueOptions): void {
  checkOptions('enqueue', options, ['tx', 'onConflict', ...JOB_OPTIONS])
  checkOnConflict(options.onConflict)
}

const WRAPPED = 'write enqueueMany(kind, inputs.map((input) => ({ input })))'

export type CallOptions = Pick<EnqueueOptions, 'tx' | 'onConflict'>

export function checkManyOptions(jobs: readonly ManyOptions<unknown>[], options: CallOptions): void {
  checkOptions('enqueueMany', options, ['tx', 'onConflict'])
  checkOnConflict(options.onConflict)
  if (!Array.isArray(jobs)) throw new InvalidOptionError('enqueueMany', `it must be a list; ${WRAPPED}`)
  jobs.forEach((job, index) => {
    // Most jobs have an input and no options, so nothing is checked and no name is built.
    if (hasInputOnly(job)) return
    const of = `enqueueMany[${index}]`
    if (!hasInput(job)) throw new InvalidOptionError(of, `it has no input; ${WRAPPED}`)
    checkOptions(of, job, ['input', ...JOB_OPTIONS])
  })
}

export function toNewJob<Input>(kind: Kind<Input, unknown>, job: ManyOptions<Input>): NewJob {
  const { delay, at } = job
  if (delay !== undefined && at !== undefined) {
    throw new InvalidOptionError('at', '`at` and `delay` are mutually exclusive; leave one out')
  }
  if (at !== undefined) checkDate('at', at)
  return {
    kind: kind.name,
    queue: kind.queue,
    input: job.input,
    priority: job.priority ?? kind.priority,
    delayMs: delay === undefined ? undefined : durationMs('delay', delay),
    availableAt: at,
    maxAttempts: kind.maxAttempts,
    partitionKey: job.partitionKey,
    ordered: kind.ordered,
    idempotencyKey: job.idempotencyKey,
    keepKeyMs: kind.keepKeyMs,
    expiresAt: job.expiresAt,
    metadata: job.metadata,
  }
}

function checkOnConflict(value: unknown): void {
  if (value === undefined || value === 'throw' || value === 'return') return
  throw new InvalidOptionError('onConflict', "it must be 'throw' or 'return'")
}

function hasInputOnly(job: object): boolean {
  return hasInput(job) && Object.keys(job).length === 1
}

function hasInput(job: unknown): job is object {
  return typeof job === 'object' && job !== null && Object.hasOwn(job, 'input')
}
