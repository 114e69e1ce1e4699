export type { Duration } from './core/duration.ts'
export {
  CancelRequestedError,
  ConcurrentModificationError,
  DeadlineError,
  EffectUnknownError,
  type ErrorCode,
  type InputIssue,
  InvalidInputError,
  InvalidOptionError,
  JobNotFoundError,
  LeaseholdError,
  LeaseLostError,
  LockTimeoutError,
  RolledBackError,
  SchemaError,
  StoppingError,
  TimedOutError,
  TransactionConflictError,
  ValueNotStorableError,
} from './core/errors.ts'
export { type Kind, type KindOptions, kind } from './core/kind.ts'
export type { Log, LogEntry } from './core/log.ts'
export { type OnDeadLetter, type Queue, type QueueOptions, queue } from './core/queue.ts'
export type { Retention } from './core/retention.ts'
export { Cancel, Fatal, NotDone, RetryAfter, Snooze } from './core/steering.ts'
export type { ErrorDescription } from './core/storable.ts'
export { type Pattern, type PatternAdvice, type PatternAnswers, whichPattern } from './core/which-pattern.ts'
export type { ConnectionOptions } from './db/connection.ts'
export { type GrantsOptions, grantsSql } from './db/grants.ts'
export type { Queryable } from './db/lane.ts'
export { checkSchema, migrate, migrationSql } from './db/migrate.ts'
export { type TransactionOptions, withTransaction } from './db/transaction.ts'
export type { Effect, EffectFinding, EffectSettled } from './effects/ledger.ts'
export {
  type HandledMessage,
  type MessageSource,
  type MessageSourceOptions,
  messageSource,
} from './effects/messages.ts'
export type { Once, OnceOptions } from './effects/once.ts'
export type { EnqueueOptions, ManyOptions } from './enqueue-options.ts'
export type { Attempt, AttemptOutcome } from './inspect/attempts.ts'
export type { JobSnapshot, ListOptions } from './inspect/jobs.ts'
export type { Finished, WaitForOptions } from './inspect/wait-for.ts'
export type { Declaration } from './jobs/configuration.ts'
export type { Enqueued } from './jobs/enqueue.ts'
export type { Maintained } from './jobs/housekeeping.ts'
export type { JobId, Status } from './jobs/job.ts'
export type { ByOption, CancelOptions, CancelOutcome } from './jobs/operator.ts'
export type { PauseOutcome, PauseTarget, ResumeOutcome } from './jobs/pause.ts'
export { Leasehold, type RedriveFilter } from './leasehold.ts'
export type { Chore } from './runtime/chore.ts'
export type { StopOptions } from './runtime/lifecycle.ts'
export type { Arrows, Names, Phases, StatusTableOptions } from './tables/definition.ts'
export type { FailOptions } from './tables/failure.ts'
export { type FencedTable, type FencedTableOptions, type FencedWrite, fencedTable } from './tables/fenced-table.ts'
export { type GuardCounts, type GuardedWrite, WriteGuard, type WriteGuardOptions } from './tables/guard.ts'
export type {
  Claimed,
  ClaimOutcome,
  FailRecorded,
  Looked,
  RowClaim,
  TransitionOutcome,
  Values,
} from './tables/outcomes.ts'
export type { Recovery } from './tables/recovery.ts'
export type { Rollout } from './tables/rollout.ts'
export type { RowId } from './tables/row-id.ts'
export type { Seen } from './tables/seen-ids.ts'
export { databaseNow, type StatusTable, statusTable } from './tables/status-table.ts'
export type { WorkClaim, Worked, WorkOptions } from './tables/work.ts'
export type { AbortReason, DeadLetterReason, JobInfo, WorkerEvents } from './worker/events.ts'
export { type HandleOptions, type Handler, handle } from './worker/handler.ts'
export type { Job } from './worker/job.ts'
export type { ClaimOptions, ManualJob } from './worker/manual.ts'
export type { WorkerOptions } from './worker/options.ts'
export type { Tally } from './worker/outcome-events.ts'
export type { Worker } from './worker/worker.ts'
