/** Support for the user's own tables: `leasehold/tables`. Status tables and the write guard need no table of Leasehold. */
export { ConcurrentModificationError, LockTimeoutError } from '../core/errors.ts'
export { type FencedTable, type FencedTableOptions, type FencedWrite, fencedTable } from './fenced-table.ts'
export { type GuardCounts, type GuardedWrite, WriteGuard, type WriteGuardOptions } from './guard.ts'
export type { TransitionOutcome } from './outcomes.ts'
export type { RecoveryOptions } from './recovery.ts'
export { databaseNow, type StatusTable, statusTable } from './status-table.ts'
export type { WorkClaim, Worked } from './work.ts'
