import type { ErrorDescription } from '../core/error-description.ts'
import type { Lane } from '../db/lane.ts'
import { checkId } from '../db/parameters.ts'
import type { JobId } from '../jobs/job.ts'
import { LIST_ATTEMPTS } from './attempts.sql.ts'

export const ATTEMPT_OUTCOMES = ['completed', 'failed', 'crashed', 'released', 'snoozed', 'cancelled'] as const
export type AttemptOutcome = (typeof ATTEMPT_OUTCOMES)[number]

/** One claim of a job, and how it ended. */
export interface Attempt {
  /** 1 for the first. Repeats after an attempt that was not spent: released, snoozed, or lost with its worker. */
  readonly attempt: number
  /** Grows with each claim, for the life of the job. */
  readonly generation: number
  readonly outcome: AttemptOutcome
  /** When the job was claimed. */
  readonly startedAt: Date
  readonly endedAt: Date
  /** The label is null when the worker is no longer in the registry. */
  readonly worker: { readonly id: string; readonly label: string | null }
  readonly error: ErrorDescription | null
}

/** Oldest first. */
export async function listAttempts(lane: Lane, jobId: JobId): Promise<Attempt[]> {
  const rows = await lane.run<AttemptColumn>(LIST_ATTEMPTS, [checkId('jobId', jobId)])
  return rows.map((row) => ({
    attempt: Number(row.attempt),
    generation: Number(row.lease_generation),
    outcome: row.outcome as AttemptOutcome,
    startedAt: new Date(Number(row.started_ms)),
    endedAt: new Date(Number(row.ended_ms)),
    worker: { id: row.worker_id!, label: row.worker_label },
    error: row.error === null ? null : JSON.parse(row.error),
  }))
}

type AttemptColumn =
  | 'attempt'
  | 'lease_generation'
  | 'outcome'
  | 'worker_id'
  | 'worker_label'
  | 'error'
  | 'started_ms'
  | 'ended_ms'
