/** Every code a Leasehold error can carry. Codes are API and never change; the documentation is compared with this list. */
export const ERROR_CODES = [
  'CANCEL_REQUESTED',
  'CONCURRENT_MODIFICATION',
  'DEADLINE',
  'EFFECT_UNKNOWN',
  'EVENT_CONFLICT',
  'IDEMPOTENCY_CONFLICT',
  'INVALID_INPUT',
  'INVALID_OPTION',
  'JOB_NOT_FOUND',
  'LEASE_LOST',
  'LOCK_TIMEOUT',
  'NOT_SENT',
  'ROLLED_BACK',
  'RUN_FINISHED',
  'RUN_NOT_FOUND',
  'SCHEMA',
  'SEAT_TAKEN',
  'STEP_FAILED',
  'STOPPING',
  'TIMED_OUT',
  'TRANSACTION_CONFLICT',
  'VALUE_NOT_STORABLE',
  'WORKFLOW_CHANGED',
] as const

export type ErrorCode = (typeof ERROR_CODES)[number]

/** The parent of every error Leasehold throws on purpose. Branch on `code`; the message is for people and may change. */
export abstract class LeaseholdError extends Error {
  abstract readonly code: ErrorCode
  // Written out in each class, not read from the constructor, because a minifier renames constructors.
  abstract override readonly name: string
}

/**
 * Thrown by a write guard when the evaluated rows have changed. Nothing was written. Not a failure: another writer
 * committed first, and the next evaluation sees its rows.
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
        'evaluate again, or leave it to the writer that committed first.',
    )
    this.site = site
    this.seen = seen
    this.found = found
  }
}

/** The first five, and how many more there are. */
export function few(list: readonly string[]): string {
  if (list.length === 0) return 'nothing'
  return list.length <= 5 ? list.join(', ') : `${list.slice(0, 5).join(', ')} and ${list.length - 5} more`
}

/**
 * Thrown when the server did not reply in time. The request may have been carried out, unless the cause is the server's
 * error 57014: then it was not.
 */
export class DeadlineError extends LeaseholdError {
  readonly code = 'DEADLINE'
  override readonly name = 'DeadlineError'

  constructor(what: string, ms: number, options?: ErrorOptions) {
    super(`${what} did not end within ${ms} ms.`, options)
  }
}

/**
 * Thrown when an effect may or may not have happened: an earlier attempt began it and recorded no end, or it threw just
 * now (then that error is the cause). It is not begun again; the job becomes a dead letter for a person to decide.
 */
export class EffectUnknownError extends LeaseholdError {
  readonly code = 'EFFECT_UNKNOWN'
  override readonly name = 'EffectUnknownError'
  readonly jobId: string
  readonly effect: string

  constructor(jobId: string, effect: string, since: string, options?: ErrorOptions) {
    super(
      `The effect ${JSON.stringify(effect)} of job ${jobId} was begun at ${since}, and whether it happened is unknown. ` +
        'Find out, record it with settleEffect(), then redrive the job.',
      options,
    )
    this.jobId = jobId
    this.effect = effect
  }
}

/** Thrown by an inbox when an event id was received before with another body. Nothing was changed; do not acknowledge it. */
export class EventConflictError extends LeaseholdError {
  readonly code = 'EVENT_CONFLICT'
  override readonly name = 'EventConflictError'

  constructor(source: string, eventId: string) {
    super(
      `Event ${JSON.stringify(eventId)} of ${source} was received before with another body. Nothing was changed. ` +
        'The sender must give each event an id of its own.',
    )
  }
}

/** A key that belongs to a job with another input. */
export interface KeyConflict {
  /** Index of the job in the call. */
  readonly index: number
  readonly idempotencyKey: string
  /** The job that has the key. */
  readonly jobId: string
}

/** Thrown when an idempotency key belongs to a job with another input. Nothing of the call was enqueued. */
export class IdempotencyConflictError extends LeaseholdError {
  readonly code = 'IDEMPOTENCY_CONFLICT'
  override readonly name = 'IdempotencyConflictError'
  /** The job that has the key; the first one if there are several conflicts. */
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

/** One way in which an input does not fit its kind. */
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

/** Thrown when an option has an invalid value. Nothing was changed. */
export class InvalidOptionError extends LeaseholdError {
  readonly code = 'INVALID_OPTION'
  override readonly name = 'InvalidOptionError'
  readonly option: string

  constructor(option: string, reason: string, options?: ErrorOptions) {
    super(`The option ${option} cannot be used: ${reason}${reason.endsWith('?') ? '' : '.'}`, options)
    this.option = option
  }
}

/** Thrown when a job does not exist: unknown id, past its retention, or `keep: false`. */
export class JobNotFoundError extends LeaseholdError {
  readonly code = 'JOB_NOT_FOUND'
  override readonly name = 'JobNotFoundError'

  constructor(jobId: string) {
    super(`Job ${jobId} not found: unknown id, past its retention, or \`keep: false\`.`)
  }
}

/** Thrown when a write carries a lease that is no longer held. Nothing was changed. */
export class LeaseLostError extends LeaseholdError {
  readonly code = 'LEASE_LOST'
  override readonly name = 'LeaseLostError'
  readonly jobId: string
  readonly generation: number

  constructor(lease: { readonly jobId: string; readonly generation: number }, options?: ErrorOptions) {
    super(
      `The lease on job ${lease.jobId} (generation ${lease.generation}) is lost: another worker holds the job or will. ` +
        'Nothing was changed. Drop the work.',
      options,
    )
    this.jobId = lease.jobId
    this.generation = lease.generation
  }
}

/** Thrown when a lock could not be acquired in time. Nothing was changed. */
export class LockTimeoutError extends LeaseholdError {
  readonly code = 'LOCK_TIMEOUT'
  override readonly name = 'LockTimeoutError'

  constructor(what: string, ms: number, options?: ErrorOptions) {
    super(`${what} stayed locked by another transaction for longer than ${ms} ms. Nothing was changed.`, options)
  }
}

/** A message that was not sent. */
export interface Unsent {
  readonly id: string
  /** True: refused, and would be refused again. False: unknown, or out of attempts; it may have arrived. */
  readonly refused: boolean
  readonly reason: string
}

/** Thrown when some messages were not sent; all others were. Their rows are unchanged in the database. */
export class NotSentError extends LeaseholdError {
  readonly code = 'NOT_SENT'
  override readonly name = 'NotSentError'
  readonly unsent: readonly Unsent[]

  constructor(to: string, unsent: readonly Unsent[]) {
    const list = few(unsent.map(({ id, reason }) => `${id} (${reason})`))
    super(`Not sent to ${to}: ${list}. Send them again, or let the recovery of their rows re-publish them.`)
    this.unsent = unsent
  }
}

/** Thrown when a commit ended in a rollback. Nothing was changed. */
export class RolledBackError extends LeaseholdError {
  readonly code = 'ROLLED_BACK'
  override readonly name = 'RolledBackError'

  constructor(message?: string) {
    super(
      message ??
        'The transaction was rolled back: a statement in it had failed, and its error was caught. ' +
          'Let that error throw, or run the statement under a savepoint.',
    )
  }
}

/** Thrown when a schema name is invalid, or the schema's version does not fit this code. */
export class SchemaError extends LeaseholdError {
  readonly code = 'SCHEMA'
  override readonly name = 'SchemaError'
}

/** Thrown before anything is stored, when Postgres would refuse a value or return it changed. */
export class ValueNotStorableError extends LeaseholdError {
  readonly code = 'VALUE_NOT_STORABLE'
  override readonly name = 'ValueNotStorableError'
  /** Path within the value, such as `$.items[3].price` or `$["odd key"]`. */
  readonly path: string
  /** What is wrong, and what to pass instead. */
  readonly reason: string

  constructor(path: string, reason: string, options?: ErrorOptions) {
    super(`The value at ${path} cannot be stored: ${reason}.`, options)
    this.path = path
    this.reason = reason
  }
}

/** Abort reason of a handler's signal: an operator cancelled the job. */
export class CancelRequestedError extends LeaseholdError {
  readonly code = 'CANCEL_REQUESTED'
  override readonly name = 'CancelRequestedError'

  constructor(jobId: string) {
    super(`The cancellation of job ${jobId} was requested. Stop and throw; any error will do.`)
  }
}

/** Abort reason of a handler's signal: its worker or consumer stops, and the grace is over. The work is released. */
export class StoppingError extends LeaseholdError {
  readonly code = 'STOPPING'
  override readonly name = 'StoppingError'

  constructor(message = 'The worker is stopping. The job is released, and its attempt is not spent.') {
    super(message)
  }
}

/** Abort reason of a handler's signal, or the end of a wait: the time limit has passed. */
export class TimedOutError extends LeaseholdError {
  readonly code = 'TIMED_OUT'
  override readonly name = 'TimedOutError'

  constructor(what: string, ms: number) {
    super(`${what} took longer than ${ms} ms.`)
  }
}

/**
 * Thrown when Postgres aborts a transaction in favour of another: a serialization failure (40001) or a deadlock (40P01).
 * Nothing was changed. Run the whole transaction again; `withTransaction` does so with `attempts`.
 */
export class TransactionConflictError extends LeaseholdError {
  readonly code = 'TRANSACTION_CONFLICT'
  override readonly name = 'TransactionConflictError'

  constructor(options?: ErrorOptions) {
    super('Postgres aborted this transaction in favour of another one. Nothing was changed. Run it again.', options)
  }
}
