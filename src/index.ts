/**
 * The package's root: jobs, workers, and what handlers throw. Tables of the user's are in `leasehold/tables`, SQS is in
 * `leasehold/sqs`, the receiver's inbox in `leasehold/inbox`. Names are listed by hand, and test/tidy.test.ts counts them.
 */
export type { Duration } from './core/duration.ts'
export {
  CancelRequestedError,
  EffectUnknownError,
  IdempotencyConflictError,
  InvalidInputError,
  InvalidOptionError,
  JobNotFoundError,
  LeaseholdError,
  LeaseLostError,
  SchemaError,
  TimedOutError,
  TransactionConflictError,
  ValueNotStorableError,
} from './core/errors.ts'
export { type Kind, type KindOptions, kind } from './core/kind.ts'
export type { Log, LogEntry } from './core/log.ts'
export { queue } from './core/queue.ts'
export { Cancel, Fatal, NotDone, RetryAfter, Snooze } from './core/steering.ts'
export { substream } from './core/substream.ts'
export { grantsSql } from './db/grants.ts'
export { checkSchema, migrate, migrationSql } from './db/migrate.ts'
export { withTransaction } from './db/transaction.ts'
export type { Tx } from './db/tx.ts'
export type { EnqueueOptions } from './enqueue-options.ts'
export type { JobSnapshot } from './inspect/jobs.ts'
export type { Enqueued } from './jobs/enqueue.ts'
export type { JobId } from './jobs/job.ts'
export { Leasehold } from './leasehold.ts'
export type { Chore } from './runtime/chore.ts'
export type { JobInfo, WorkerEvents } from './worker/events.ts'
export { type Handler, handle, handleBatch } from './worker/handler.ts'
export type { BatchJob, Job } from './worker/job.ts'
export type { ManualJob } from './worker/manual.ts'
export type { WorkerOptions } from './worker/options.ts'
export type { RingChange } from './worker/ring-member.ts'
export type { Worker } from './worker/worker.ts'
