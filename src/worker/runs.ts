/**
 * Runs: jobs of one key of an ordered queue that were claimed together. They are a chain, and each is behind the one before it
 * until that has succeeded. When one does not succeed, the database returns the rest with its outcome (decisions/0034).
 */
import type { ClaimedJob } from '../jobs/job.ts'
import type { HeldJob } from './job.ts'
import type { Slots } from './slots.ts'

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

/** The job has succeeded. Returns the next of its run, which waits for a slot from here on. */
export function startNext(slots: Slots, job: HeldJob): HeldJob | undefined {
  const { next } = job
  if (next === undefined) return undefined
  job.next = undefined
  slots.add(next)
  return next
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
    if (!isMeant(next)) continue
    job.next = undefined
    return next
  }
  return undefined
}
