import type { ClaimedJob } from '../jobs/job.ts'

/** What the worker knows of the job that carries the run. */
export interface Carrier {
  readonly claimed: ClaimedJob
  readonly signal: AbortSignal
  leaseIsOurs(): boolean
}
