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
   * One job per queue and key, until the kind's keepKey after it has finished. A second enqueue returns `existing`. If its input
   * differs it throws IdempotencyConflictError, and nothing of the call was enqueued.
   */
  readonly idempotencyKey?: string
  /** return: the outcome `conflict` instead of the error. Of enqueueMany, the other jobs are enqueued then. Default: throw. */
  readonly onConflict?: 'throw' | 'return'
  /** What belongs together, such as `order:9182`. */
  readonly partitionKey?: string
  /** 0 first, 9 last. Default: the kind's. */
  readonly priority?: number
  /** Not before this long from now, by the database's clock. */
  readonly delay?: Duration
  /** Not before this moment. */
  readonly at?: Date
  /** Not started by then: a dead letter. A retry, a snoozed or a redriven job does not expire. */
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

export type CallOptions = Pick<EnqueueOptions, 'tx' | 'onConflict'>

export function checkManyOptions(jobs: readonly ManyOptions<unknown>[], options: CallOptions): void {
  checkOptions('enqueueMany', options, ['tx', 'onConflict'])
  checkOnConflict(options.onConflict)
  jobs.forEach((job, index) => {
    // Most jobs have an input and no options: then there is nothing to check, and no name to build.
    if (!hasInputOnly(job)) checkOptions(`enqueueMany[${index}]`, job, ['input', ...JOB_OPTIONS])
  })
}

export function toNewJob<Input>(kind: Kind<Input, unknown>, job: ManyOptions<Input>): NewJob {
  const { delay, at } = job
  if (delay !== undefined && at !== undefined) {
    throw new InvalidOptionError('at', '`at` and `delay` are mutually exclusive')
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
  return job !== null && typeof job === 'object' && Object.keys(job).length === 1 && Object.hasOwn(job, 'input')
}
