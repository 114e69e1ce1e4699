import { checkInteger } from '../core/check.ts'
import type { Lane } from '../db/lane.ts'
import type { JobId } from './job.ts'
import { CANCEL, FIND_DEAD_LETTERS, REDRIVE } from './operator.sql.ts'
import { idArray } from './parameters.ts'

/** cancelled: it was pending. requested: it runs, and its worker will abort it. busy: locked this moment, ask again. */
export type CancelOutcome = 'cancelled' | 'requested' | 'busy' | 'not_found'

export async function cancel(
  lane: Lane,
  jobIds: readonly JobId[],
): Promise<{ jobId: JobId; outcome: CancelOutcome }[]> {
  const rows = await lane.run(CANCEL, [idArray('jobIds', [...new Set(jobIds)])])
  return rows.map(([id, outcome]) => ({ jobId: id as JobId, outcome: outcome as CancelOutcome }))
}

/** Dead letters become pending jobs again, with fresh attempts. Returns those that this call revived. */
export async function redrive(lane: Lane, jobIds: readonly JobId[]): Promise<JobId[]> {
  const rows = await lane.run(REDRIVE, [idArray('jobIds', [...new Set(jobIds)])])
  return rows.map(([id]) => id as JobId)
}

export interface DeadLetterFilter {
  readonly queue: string
  readonly kind?: string
  readonly reason?: string
  /** At most this many, oldest first. Default: 1,000. */
  readonly limit?: number
}

/** The ids to hand to `redrive`. */
export async function findDeadLetters(lane: Lane, filter: DeadLetterFilter): Promise<JobId[]> {
  const limit = checkInteger('limit', filter.limit ?? 1_000, 1, 10_000)
  const rows = await lane.run(FIND_DEAD_LETTERS, [filter.queue, filter.kind ?? null, filter.reason ?? null, limit])
  return rows.map(([id]) => id as JobId)
}
