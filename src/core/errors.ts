/** Every code a Leasehold error can carry. Codes are API and never change; the documentation is compared with this list. */
export const ERROR_CODES = [
  'CANCEL_REQUESTED',
  'CONCURRENT_MODIFICATION',
  'DEADLINE',
  'EFFECT_UNKNOWN',
  'IDEMPOTENCY_CONFLICT',
  'INVALID_INPUT',
  'INVALID_OPTION',
  'JOB_NOT_FOUND',
  'LEASE_LOST',
  'LOCK_TIMEOUT',
  'NOT_SENT',
  'ROLLED_BACK',
  'SCHEMA',
  'STOPPING',
  'TIMED_OUT',
  'TRANSACTION_CONFLICT',
  'VALUE_NOT_STORABLE',
] as const

export type ErrorCode = (typeof ERROR_CODES)[number]

/** The parent of every error Leasehold throws on purpose. Branch on `code`: the message is for people and may change. */
export abstract class LeaseholdError extends Error {
  abstract readonly code: ErrorCode
  // Written out in each class rather than read from the constructor, so that a minifier cannot change it.
  abstract override readonly name: string
}

/**
 * Thrown by a guard when what was evaluated has changed since. Nothing was changed. Not a failure: the writer who came
 * first has won, and the next evaluation will see what it wrote.
 */
export class ConcurrentModificationError extends LeaseholdError {
  readonly code = 'CONCURRENT_MODIFICATION'
  override readonly name = 'ConcurrentModificationError'
  readonly site: string
  readonly seen: readonly string[]
  readonly found: readonly string[]

  constructor(site: string, seen: readonly string[], found: readonly string[]) {
    super(
      `${site}: the evaluation saw ${few(seen)}, but now there is ${few(found)}. Nothing was written; ` +
        'evaluate again, or leave it to whoever was first.',
    )
    this.site = site
    this.seen = seen
    this.found = found
  }
}

function few(ids: readonly string[]): string {
  if (ids.length === 0) return 'nothing'
  return ids.length <= 5 ? ids.join(', ') : `${ids.slice(0, 5).join(', ')} and ${ids.length - 5} more`
}

/**
 * Thrown when the server did not answer in time. Whether it did what was asked is not known, unless the cause is the server's
 * own error 57014: then it did not.
 */
export class DeadlineError extends LeaseholdError {
  readonly code = 'DEADLINE'
  override readonly name = 'DeadlineError'

  constructor(what: string, ms: number, options?: ErrorOptions) {
    super(`${what} did not end within ${ms} ms.`, options)
  }
}

/**
 * Thrown when an effect may have happened or not: an earlier attempt began it and its end was never recorded, or it threw
 * just now (then that is the cause). It is not begun again, and the job becomes a dead letter for a person to decide.
 */
export class EffectUnknownError extends LeaseholdError {
  readonly code = 'EFFECT_UNKNOWN'
  override readonly name = 'EffectUnknownError'
  readonly jobId: string
  readonly effect: string

  constructor(jobId: string, effect: string, since: string, options?: ErrorOptions) {
    super(
      `The effect ${JSON.stringify(effect)} of job ${jobId} was begun at ${since}, and nobody knows whether it happened. ` +
        'Find out, say so with settleEffect(), then redrive the job.',
      options,
    )
    this.jobId = jobId
    this.effect = effect
  }
}

/** A key that belongs to a job with another input. */
export interface KeyConflict {
  /** Which job of the call. */
  readonly index: number
  readonly idempotencyKey: string
  /** The job that has the key. */
  readonly jobId: string
}

/** Thrown when an idempotency key belongs to a job with another input. Nothing of the call was enqueued. */
export class IdempotencyConflictError extends LeaseholdError {
  readonly code = 'IDEMPOTENCY_CONFLICT'
  override readonly name = 'IdempotencyConflictError'
  /** The job that has the key; of several, the first one's. */
  readonly jobId: string
  readonly conflicts: readonly KeyConflict[]

  constructor(conflicts: readonly KeyConflict[]) {
    const list = few(conflicts.map(({ idempotencyKey, jobId }) => `${JSON.stringify(idempotencyKey)} (job ${jobId})`))
    super(
      `Another input was enqueued under the same idempotency key: ${list}. Nothing was enqueued. ` +
        "Use another key, or pass onConflict: 'return' and look at the outcome.",
    )
    this.jobId = conflicts[0]!.jobId
    this.conflicts = conflicts
  }
}

/** Where an input does not fit its kind. */
export interface InputIssue {
  /** Dotted, such as `order.id`; empty for the whole input. */
  readonly path: string
  readonly message: string
}

/** Thrown when an input does not fit the schema of its kind. Nothing was enqueued. */
export class InvalidInputError extends LeaseholdError {
  readonly code = 'INVALID_INPUT'
  override readonly name = 'InvalidInputError'
  readonly issues: readonly InputIssue[]

  constructor(kind: string, issues: readonly InputIssue[]) {
    const list = issues.map(({ path, message }) => (path === '' ? message : `${path}: ${message}`)).join('; ')
    super(`The input does not fit the schema of ${kind}. ${list}`)
    this.issues = issues
  }
}

/** Thrown when an option has a value that cannot be used. Nothing was changed. */
export class InvalidOptionError extends LeaseholdError {
  readonly code = 'INVALID_OPTION'
  override readonly name = 'InvalidOptionError'
  readonly option: string

  constructor(option: string, reason: string, options?: ErrorOptions) {
    super(`The option ${option} cannot be used: ${reason}${reason.endsWith('?') ? '' : '.'}`, options)
    this.option = option
  }
}

/** Thrown when a job is asked about that is not there: it never was, or its kind keeps nothing. */
export class JobNotFoundError extends LeaseholdError {
  readonly code = 'JOB_NOT_FOUND'
  override readonly name = 'JobNotFoundError'

  constructor(jobId: string) {
    super(`There is no job ${jobId}: it never was, its time to be kept is over, or its kind keeps nothing.`)
  }
}

/** Thrown when a write arrives under a lease that is no longer held. Nothing was changed. */
export class LeaseLostError extends LeaseholdError {
  readonly code = 'LEASE_LOST'
  override readonly name = 'LeaseLostError'
  readonly jobId: string
  readonly generation: number

  constructor(lease: { readonly jobId: string; readonly generation: number }, options?: ErrorOptions) {
    super(
      `The lease on job ${lease.jobId} (generation ${lease.generation}) is gone: another worker has it or will. ` +
        'Nothing was changed. Drop the work.',
      options,
    )
    this.jobId = lease.jobId
    this.generation = lease.generation
  }
}

/** Thrown when a lock was not to be had in time. Nothing was changed. */
export class LockTimeoutError extends LeaseholdError {
  readonly code = 'LOCK_TIMEOUT'
  override readonly name = 'LockTimeoutError'

  constructor(what: string, ms: number, options?: ErrorOptions) {
    super(`${what} was locked by somebody else for longer than ${ms} ms. Nothing was changed.`, options)
  }
}

/** Something that was not sent. */
export interface Unsent {
  readonly id: string
  /** True: it was, and the same one will be again. False: not known, or too often in vain; it may even have arrived. */
  readonly refused: boolean
  readonly reason: string
}

/** Thrown when some messages were not sent; all others were. What they are about is in the database as before. */
export class NotSentError extends LeaseholdError {
  readonly code = 'NOT_SENT'
  override readonly name = 'NotSentError'
  readonly unsent: readonly Unsent[]

  constructor(to: string, unsent: readonly Unsent[]) {
    const list = few(unsent.map(({ id, reason }) => `${id} (${reason})`))
    super(`Not sent to ${to}: ${list}. Send them again, or leave it to the recovery of their rows.`)
    this.unsent = unsent
  }
}

/** Thrown when a transaction was to be committed and Postgres rolled it back. Nothing was changed. */
export class RolledBackError extends LeaseholdError {
  readonly code = 'ROLLED_BACK'
  override readonly name = 'RolledBackError'

  constructor(message?: string) {
    super(
      message ?? 'The transaction was rolled back: a statement in it had failed, and its error was caught and dropped.',
    )
  }
}

/** Thrown when a schema name, or the version of the schema found under it, cannot be used. */
export class SchemaError extends LeaseholdError {
  readonly code = 'SCHEMA'
  override readonly name = 'SchemaError'
}

/** Thrown before anything is sent, when a value would be refused by Postgres or would come back changed. */
export class ValueNotStorableError extends LeaseholdError {
  readonly code = 'VALUE_NOT_STORABLE'
  override readonly name = 'ValueNotStorableError'
  /** Where in the value, such as `$.items[3].price` or `$["odd key"]`. */
  readonly path: string
  /** What is wrong with it and what to pass instead. */
  readonly reason: string

  constructor(path: string, reason: string, options?: ErrorOptions) {
    super(`The value at ${path} cannot be stored: ${reason}.`, options)
    this.path = path
    this.reason = reason
  }
}

/** Why a handler's signal was aborted: somebody cancelled the job. */
export class CancelRequestedError extends LeaseholdError {
  readonly code = 'CANCEL_REQUESTED'
  override readonly name = 'CancelRequestedError'

  constructor(jobId: string) {
    super(`Job ${jobId} is to be cancelled. Stop and throw; what you throw does not matter.`)
  }
}

/** Why a handler's signal was aborted: the worker stops, and its time to do so is over. The job is released. */
export class StoppingError extends LeaseholdError {
  readonly code = 'STOPPING'
  override readonly name = 'StoppingError'

  constructor() {
    super('The worker is stopping. The job goes back to the queue, and its attempt is not spent.')
  }
}

/** Why a handler's signal was aborted, or why waiting ended: it took longer than it may. */
export class TimedOutError extends LeaseholdError {
  readonly code = 'TIMED_OUT'
  override readonly name = 'TimedOutError'

  constructor(what: string, ms: number) {
    super(`${what} took longer than ${ms} ms.`)
  }
}

/**
 * Thrown when Postgres gave up a transaction in favour of another: it could not be serialized (40001), or was the victim of
 * a deadlock (40P01). Nothing was changed. Run the whole transaction again; withTransaction does so when asked to.
 */
export class TransactionConflictError extends LeaseholdError {
  readonly code = 'TRANSACTION_CONFLICT'
  override readonly name = 'TransactionConflictError'

  constructor(options?: ErrorOptions) {
    super('Postgres gave up this transaction in favour of another one. Nothing was changed. Run it again.', options)
  }
}
