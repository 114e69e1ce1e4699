import { checkInteger } from '../core/check.ts'
import type { ErrorDescription } from '../core/error-description.ts'
import { InvalidOptionError } from '../core/errors.ts'
import type { Kind } from '../core/kind.ts'
import { checkOptions } from '../core/options.ts'
import type { Lane, Row } from '../db/lane.ts'
import { checkId, idArray } from '../db/parameters.ts'
import { type JobId, STATUSES, type Status } from '../jobs/job.ts'
import { GET, LIST_DEAD_LETTERS, LIST_FINISHED, LIST_UNFINISHED } from './jobs.sql.ts'

/** A job at the time of the query. */
export interface JobSnapshot<Result = unknown> {
  readonly id: JobId
  readonly queue: string
  readonly kind: string
  readonly status: Status
  /** Why a pending job does not run yet. */
  readonly label: 'ready' | 'scheduled' | 'retrying' | 'paused' | 'blocked' | 'waiting' | null
  readonly input: unknown
  /** The handler's return value, as JSON keeps it; null before, and if it returned nothing. */
  readonly result: Result | null
  readonly lastError: ErrorDescription | null
  /** Why it became a dead letter, or was cancelled. */
  readonly reason: string | null
  readonly attempts: number
  readonly maxAttempts: number
  readonly priority: number
  readonly generation: number
  /** The label of the worker that holds it, or held it last. */
  readonly claimedBy: string | null
  readonly progress: unknown
  readonly partitionKey: string | null
  readonly idempotencyKey: string | null
  readonly metadata: Readonly<Record<string, unknown>> | null
  readonly availableAt: Date
  readonly enqueuedAt: Date
  readonly finishedAt: Date | null
  readonly leaseExpiresAt: Date | null
  readonly cancelRequested: boolean
}

export interface ListOptions {
  readonly status?: Status
  readonly kind?: Kind | string
  readonly queue?: string
  /** Default: 100, at most 1,000. */
  readonly limit?: number
  /** Only jobs enqueued before this one; pass the last id of the page before. */
  readonly before?: string
}

export async function getJobs(lane: Lane, jobIds: readonly JobId[]): Promise<JobSnapshot[]> {
  return (await lane.run<GetColumn>(GET, [idArray('jobId', jobIds)])).map(toSnapshot)
}

/** Newest first. */
export async function listJobs(lane: Lane, options: ListOptions = {}): Promise<JobSnapshot[]> {
  checkOptions('list', options, ['status', 'kind', 'queue', 'limit', 'before'])
  const { status, kind } = options
  if (status !== undefined && !STATUSES.includes(status)) {
    throw new InvalidOptionError('list.status', `it must be one of ${STATUSES.join(', ')}`)
  }
  const limit = checkInteger('list.limit', options.limit ?? 100, 1, 1_000)
  const before = options.before === undefined ? null : checkId('list.before', options.before)
  const name = typeof kind === 'object' && kind !== null ? kind.name : (kind ?? null)
  const values = [before, options.queue ?? null, name, limit]
  const inTable = { pending: 'job', processing: 'job', completed: 'archive', cancelled: 'archive', dead_letter: 'dead' }
  const asked = (table: string) => status === undefined || inTable[status] === table
  const rows = [
    ...(asked('job') ? await lane.run<'id'>(LIST_UNFINISHED, [...values, status ?? null]) : []),
    ...(asked('dead') ? await lane.run<'id'>(LIST_DEAD_LETTERS, values) : []),
    ...(asked('archive') ? await lane.run<'id'>(LIST_FINISHED, [...values, status ?? null]) : []),
  ]
  // A job that moved between two statements may be in both lists or in neither: keep each id once, newest first.
  const ids = [...new Set(rows.map(({ id }) => BigInt(id!)))].sort((a, b) => (a > b ? -1 : 1)).slice(0, limit)
  return ids.length === 0 ? [] : getJobs(lane, ids.map(String) as JobId[])
}

type GetColumn =
  | 'id'
  | 'queue'
  | 'kind'
  | 'status'
  | 'label'
  | 'payload'
  | 'result'
  | 'last_error'
  | 'reason'
  | 'attempts'
  | 'max_attempts'
  | 'priority'
  | 'lease_generation'
  | 'claimed_by_label'
  | 'progress'
  | 'partition_key'
  | 'idempotency_key'
  | 'metadata'
  | 'available_ms'
  | 'created_ms'
  | 'completed_ms'
  | 'lease_ends_ms'
  | 'cancel_requested'

function toSnapshot(row: Row<GetColumn>): JobSnapshot {
  const json = (text: string | null) => (text === null ? null : JSON.parse(text))
  const date = (ms: string | null) => (ms === null ? null : new Date(Number(ms)))
  return {
    id: row.id as JobId,
    queue: row.queue!,
    kind: row.kind!,
    status: row.status as Status,
    label: row.label as JobSnapshot['label'],
    input: json(row.payload),
    result: json(row.result),
    lastError: json(row.last_error),
    reason: row.reason,
    attempts: Number(row.attempts),
    maxAttempts: Number(row.max_attempts),
    priority: Number(row.priority),
    generation: Number(row.lease_generation),
    claimedBy: row.claimed_by_label,
    progress: json(row.progress),
    partitionKey: row.partition_key,
    idempotencyKey: row.idempotency_key,
    metadata: json(row.metadata),
    availableAt: date(row.available_ms)!,
    enqueuedAt: date(row.created_ms)!,
    finishedAt: date(row.completed_ms),
    leaseExpiresAt: date(row.lease_ends_ms),
    cancelRequested: row.cancel_requested === 't',
  }
}
