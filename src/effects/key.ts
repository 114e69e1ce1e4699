import { effectKeyOf } from '../core/effect-key.ts'
import type { ClaimedJob } from '../jobs/job.ts'
import { checkName } from './ledger.ts'

/**
 * An idempotency key for a call to another service: the same on every attempt, also after a redrive; different for each job
 * and name. Ids begin at 1 in every schema, and a failover may assign one twice, so the time of the enqueue, to the
 * microsecond, and the job's salt are part of it.
 */
export function effectKey(job: Pick<ClaimedJob, 'jobId' | 'createdAt' | 'salt'>, name: string): string {
  return effectKeyOf('job', job.jobId, job.createdAt, job.salt, checkName(name))
}
