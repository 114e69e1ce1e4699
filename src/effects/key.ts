import { effectKeyOf } from '../core/effect-key.ts'
import type { JobId } from '../queue/job.ts'
import { checkName } from './ledger.ts'

/**
 * A key for a call to somebody else's service: the same on every attempt, also after a redrive; another for each job and
 * name. Ids begin at 1 in every database, so the moment of the enqueue is part of it.
 */
export function effectKey(jobId: JobId, createdAt: Date, name: string): string {
  return effectKeyOf('job', jobId, String(createdAt.getTime()), checkName(name))
}
