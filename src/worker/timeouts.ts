import { TimedOutError } from '../core/errors.ts'
import { Alarm, monotonicMs } from '../core/timer.ts'
import type { HeldJob } from './job.ts'

/** After its time is over, a handler has this long to end by itself. */
const ABORTED_FOR_MS = 5_000

/**
 * The hard limits on how long handlers run, with one timer for all. The jobs of a kind have the same limit, so those that
 * started first end first, and only the first of each kind has to be looked at.
 */
class Timeouts {
  readonly #onTime: (job: HeldJob) => void
  readonly #byKind = new Map<string, Map<HeldJob, number>>()
  readonly #alarm = new Alarm(() => this.#ring())

  constructor(onTime: (job: HeldJob) => void) {
    this.#onTime = onTime
  }

  /** Until this moment. */
  watch(job: HeldJob, at: number): void {
    let jobs = this.#byKind.get(job.claimed.kind)
    if (jobs === undefined) {
      jobs = new Map()
      this.#byKind.set(job.claimed.kind, jobs)
    }
    jobs.set(job, at)
    // Not moved when jobs are forgotten: it then rings in vain, and is set anew.
    this.#alarm.setEarlier(at)
  }

  forget(job: HeldJob): void {
    this.#byKind.get(job.claimed.kind)?.delete(job)
  }

  stop(): void {
    this.#byKind.clear()
    this.#alarm.set(Number.POSITIVE_INFINITY)
  }

  #ring(): void {
    const now = monotonicMs()
    for (const jobs of this.#byKind.values()) {
      for (const [job, at] of jobs) {
        if (at > now) break
        jobs.delete(job)
        this.#onTime(job)
      }
    }
    this.#setAlarm()
  }

  #setAlarm(): void {
    const first = [...this.#byKind.values()].map((jobs) => jobs.values().next().value ?? Number.POSITIVE_INFINITY)
    this.#alarm.set(Math.min(...first, Number.POSITIVE_INFINITY))
  }
}

/** How long each handler may run, and how long it has to end by itself after that. */
export class RunningTimes {
  readonly #limits: Timeouts
  readonly #patience: Timeouts

  /** `isOver`: its handler is to stop. `hasNotStopped`: it is not waited for any more. */
  constructor(isOver: (job: HeldJob) => void, hasNotStopped: (job: HeldJob) => void) {
    this.#patience = new Timeouts(hasNotStopped)
    this.#limits = new Timeouts((job) => {
      isOver(job)
      this.#patience.watch(job, monotonicMs() + ABORTED_FOR_MS)
    })
  }

  watch(job: HeldJob, startedAt: number): void {
    this.#limits.watch(job, startedAt + job.handler.kind.timeoutMs)
  }

  forget(job: HeldJob): void {
    this.#limits.forget(job)
    this.#patience.forget(job)
  }

  stop(): void {
    this.#limits.stop()
    this.#patience.stop()
  }
}

export function timedOut({ claimed, handler }: HeldJob): TimedOutError {
  return new TimedOutError(`The handler of ${claimed.kind}`, handler.kind.timeoutMs)
}
