import { checkInteger, checkText } from '../core/check.ts'
import type { Lane } from '../db/lane.ts'
import { idArray } from '../db/parameters.ts'
import type { JobId } from './job.ts'
import { CANCEL, FIND_DEAD_LETTERS, REDRIVE } from './operator.sql.ts'
import { REASON_CHARS } from './outcome.ts'

/** Who does it, for the record in leasehold.operator_actions. */
export interface ByOption {
  /** A person, a script, a service. Default: not known. */
  readonly by?: string
}

/** cancelled: it was pending. requested: it runs, and its worker will abort it. busy: locked this moment, ask again. */
export type CancelOutcome = 'cancelled' | 'requested' | 'busy' | 'not_found'

export interface CancelOptions extends ByOption {
  /** Why, kept with the job. At most 1,000 bytes. */
  readonly reason?: string
}

export async function cancel(
  lane: Lane,
  jobIds: readonly JobId[],
  { by, reason }: CancelOptions = {},
): Promise<{ jobId: JobId; outcome: CancelOutcome }[]> {
  const why = reason === undefined ? null : checkText('reason', reason, REASON_CHARS)
  const rows = await lane.run<'id' | 'outcome'>(CANCEL, [idArray('jobId', [...new Set(jobIds)]), checkBy(by), why])
  return rows.map(({ id, outcome }) => ({ jobId: id as JobId, outcome: outcome as CancelOutcome }))
}

/** Dead letters become pending jobs again, with fresh attempts. Returns those that this call revived. */
export async function redrive(lane: Lane, jobIds: readonly JobId[], { by }: ByOption = {}): Promise<JobId[]> {
  const rows = await lane.run<'id'>(REDRIVE, [idArray('jobId', [...new Set(jobIds)]), checkBy(by)])
  return rows.map(({ id }) => id as JobId)
}

export function checkBy(by: string | undefined): string | null {
  return by === undefined ? null : checkText('by', by, 200)
}

export interface DeadLetterFilter {
  readonly queue: string
  readonly kind?: string
  readonly reason?: string
  /** At most this many, oldest first. Default: 1,000. */
  readonly limit?: number
}

/** The ids to pass to `redrive`. */
export async function findDeadLetters(lane: Lane, filter: DeadLetterFilter): Promise<JobId[]> {
  const limit = checkInteger('limit', filter.limit ?? 1_000, 1, 10_000)
  const rows = await lane.run<'id'>(FIND_DEAD_LETTERS, [
    filter.queue,
    filter.kind ?? null,
    filter.reason ?? null,
    limit,
  ])
  return rows.map(({ id }) => id as JobId)
}
