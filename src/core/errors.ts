/** Every code a Leasehold error can carry. Codes are API and never change; the documentation is compared with this list. */
export const ERROR_CODES = ['INVALID_OPTION', 'LEASE_LOST', 'ROLLED_BACK', 'SCHEMA', 'VALUE_NOT_STORABLE'] as const

export type ErrorCode = (typeof ERROR_CODES)[number]

/** The parent of every error Leasehold throws on purpose. Branch on `code`: the message is for people and may change. */
export abstract class LeaseholdError extends Error {
  abstract readonly code: ErrorCode
  // Written out in each class rather than read from the constructor, so that a minifier cannot change it.
  abstract override readonly name: string
}

/** Thrown when an option has a value that cannot be used. Nothing was changed. */
export class InvalidOptionError extends LeaseholdError {
  readonly code = 'INVALID_OPTION'
  override readonly name = 'InvalidOptionError'
  readonly option: string

  constructor(option: string, reason: string, options?: ErrorOptions) {
    super(`The option ${option} cannot be used: ${reason}.`, options)
    this.option = option
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

/** Thrown when a transaction was to be committed and Postgres rolled it back. Nothing was changed. */
export class RolledBackError extends LeaseholdError {
  readonly code = 'ROLLED_BACK'
  override readonly name = 'RolledBackError'

  constructor() {
    super('The transaction was rolled back: a statement in it had failed, and its error was caught and dropped.')
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
