import { type Duration, durationMs } from '../core/duration.ts'
import { JobNotFoundError, TimedOutError } from '../core/errors.ts'
import { checkOptions } from '../core/options.ts'
import { monotonicMs, sleep } from '../core/timer.ts'
import type { Lane } from '../db/lane.ts'
import type { JobId } from '../jobs/job.ts'
import { getJobs, type JobSnapshot } from './jobs.ts'

export interface WaitForOptions {
  /** Default: 30s. */
  readonly timeout?: Duration
  readonly signal?: AbortSignal
}

/** A job that has ended. */
export type Finished<Result = unknown> = JobSnapshot<Result> & {
  readonly status: 'completed' | 'dead_letter' | 'cancelled'
}

/** Polls until the job has ended. Throws TimedOutError after the timeout, JobNotFoundError if there is no such job. */
export async function waitFor(lane: Lane, jobId: JobId, options: WaitForOptions = {}): Promise<Finished> {
  checkOptions('waitFor', options, ['timeout', 'signal'])
  const timeoutMs = durationMs('waitFor.timeout', options.timeout ?? '30s')
  const until = monotonicMs() + timeoutMs
  for (let waitMs = 10; ; waitMs = Math.min(waitMs * 1.5, 1_000)) {
    const [job] = await getJobs(lane, [jobId])
    if (job === undefined) throw new JobNotFoundError(jobId)
    if (isFinished(job)) return job
    const leftMs = until - monotonicMs()
    if (leftMs <= 0) throw new TimedOutError(`Waiting for job ${jobId}`, timeoutMs)
    await sleep(Math.min(waitMs, leftMs), options.signal)
    options.signal?.throwIfAborted()
  }
}

function isFinished(job: JobSnapshot): job is Finished {
  return job.status === 'completed' || job.status === 'dead_letter' || job.status === 'cancelled'
}
