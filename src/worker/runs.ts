/**
 * Runs: jobs of one key of an ordered queue that were claimed together. They are a chain, and each is behind the one before it
 * until that has succeeded. When one does not succeed, the database returns the rest with its outcome (decisions/0034).
 *
 * A handler that takes runs (inRuns) gets several jobs of a run in one call, as many as its size allows. All of them are running
 * then, and each knows the one ahead of it. The handler must begin none before the one ahead has succeeded. The worker records
 * their outcomes in the order of the run, so what is recorded is always the beginning of the run, and an event that was not sent
 * is never completed:
 *
 * - One ends before the one ahead of it: its outcome is kept, and recorded after that of the one ahead. It happens when an input is
 *   refused before the call begins, when an effect of the one ahead has not ended, or when the handler settles out of order.
 * - One in the middle does not succeed: those behind it in the call fall back. They are behind it again, the call goes on without them,
 *   and what the handler makes of them does not count. The database returns them, with no attempt spent, when it records that job. One
 *   that called job.complete(tx) has not succeeded until its transaction is known to be committed; those behind it are released then,
 *   and not started under this claim, since the call that had them may still go on.
 * - The process dies after the handler has done some of them: they have one claim, and the sweep returns all that are not recorded. The
 *   next worker does them again, in their order. The sweep blames the first of them, though a later one may have killed the process.
 *   It is claimed again without its run and succeeds, and after the next crash another is first, until it is the one that kills. A
 *   job on its last attempt has none behind it in its call, so that no other can bury it.
 * - The lease is lost: it is that of the claim, so it is lost for all of them at once. Each is aborted, and the fence refuses every
 *   outcome that comes after another worker's claim.
 * - A job in the call is cancelled: it is aborted, and the handler fails it. A pause, or a worker that stops, releases those that are not
 *   in the call, and lets the call end.
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

/** The job has succeeded. Returns the next of its run, which waits for a slot from here on, unless it runs in the same call. */
export function letNextWait(slots: Slots, job: HeldJob): HeldJob | undefined {
  const { next } = job
  job.next = undefined
  if (next?.state !== 'behind') return undefined
  slots.add(next)
  return next
}

/** Keeps the outcome of a job that has ended before the one ahead of it in its call. The call goes on without it. */
export function keptBehind(slots: Slots, job: HeldJob, outcome: Outcome, times: RunningTimes): boolean {
  if (job.ahead?.state !== 'running') return false
  job.kept = outcome
  job.batch!.leave(job)
  if (outcome.verb !== 'complete') fallBack(slots, job, times)
  return true
}

/** The job has not succeeded: what runs behind it, in the same call, is behind it again. */
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
