/**
 * Runs: jobs of one key of an ordered queue that were claimed together. They are a chain, and each is behind the one before it
 * until that has succeeded. When one does not succeed, the database returns the rest with its outcome (decisions/0034).
 */
import type { ClaimedJob } from '../jobs/job.ts'
import type { HeldJob } from './job.ts'
import type { Outcome } from './pending-outcome.ts'
import type { Slots } from './slots.ts'
import type { RunningTimes } from './timeouts.ts'

/** How many jobs a claim has, runs included. */
export function countWithRuns(jobs: readonly ClaimedJob[]): number {
  let count = jobs.length
  for (const { run } of jobs) if (run !== undefined) count += run.length
  return count
}

/** The first of a run waits for a slot, the others for the one before. */
export function hold(slots: Slots, claimed: ClaimedJob, held: (claimed: ClaimedJob) => HeldJob): void {
  let last = held(claimed)
  slots.add(last)
  for (const follower of claimed.run ?? []) {
    last.next = held(follower)
    last = last.next
    slots.hold(last)
  }
}

/** The job has succeeded. Returns the next of its run, which waits for a slot from here on, unless it has started in the same call. */
export function startNext(slots: Slots, job: HeldJob): HeldJob | undefined {
  const { next } = job
  job.next = undefined
  if (next?.state !== 'behind') return undefined
  slots.add(next)
  return next
}

/** The job ended in the call in which it was started behind another: what becomes of that one is not its business any more. */
export function detach(job: HeldJob): void {
  if (job.ahead?.next === job) job.ahead.next = undefined
  job.ahead = undefined
}

/**
 * Whether one ahead of it in its call has no outcome yet. Then its own is kept until that one ends. The call does not wait for it, and
 * nothing behind it is begun if it has not succeeded.
 */
export function endsEarly(slots: Slots, job: HeldJob, outcome: Outcome, times: RunningTimes): boolean {
  if (job.ahead?.state !== 'running') return false
  job.early ??= outcome
  job.batch?.withdraw(job)
  if (outcome.verb !== 'complete') fallBack(slots, job, times)
  return true
}

/** The job has not succeeded: what has started behind it, in the same call, is behind it again. */
export function fallBack(slots: Slots, job: HeldJob, times: RunningTimes): void {
  for (let { next } = job; next?.state === 'running'; next = next.next) {
    slots.fallBack(next)
    times.forget(next)
  }
}

/** The job has not succeeded, and its outcome is known. Returns the rest of its run, which is held no more. */
export function endRun(slots: Slots, job: HeldJob): HeldJob[] {
  const rest: HeldJob[] = []
  for (let { next } = job; next !== undefined; next = next.next) {
    slots.forget(next)
    rest.push(next)
  }
  job.next = undefined
  return rest
}

/** Takes the first job behind this one that is meant out of the run, and what is behind it. It is to be released. */
export function cutRun(ahead: HeldJob, isMeant: (job: HeldJob) => boolean): HeldJob | undefined {
  for (let job = ahead; job.next !== undefined; job = job.next) {
    const { next } = job
    if (next.state !== 'behind' || !isMeant(next)) continue
    job.next = undefined
    return next
  }
  return undefined
}
