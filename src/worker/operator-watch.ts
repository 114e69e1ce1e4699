/**
 * Looks for what operators want of held jobs: cancellations, and pauses of jobs that wait. A worker that listens is notified and
 * looks at once; these looks are for one that does not, or missed it.
 */
import type { Lane } from '../db/lane.ts'
import { cancelRequests } from '../jobs/outcome.ts'
import { type Paused, pausedNow } from '../jobs/pause.ts'
import { Loop, type LoopEvents } from '../runtime/loop.ts'
import type { HeldJob } from './job.ts'
import type { Slots } from './slots.ts'

/** A worker that does not listen learns of both within five seconds. */
const LOOK_EVERY_MS = 4_000

export interface OperatorWatchParts extends LoopEvents {
  readonly slots: Slots
  cancel(job: HeldJob): void
  /** Jobs of these that wait must not start. */
  pause(paused: Paused): void
}

export class OperatorWatch {
  readonly #lane: Lane
  readonly #parts: OperatorWatchParts
  readonly #loop: Loop

  constructor(lane: Lane, parts: OperatorWatchParts) {
    this.#lane = lane
    this.#parts = parts
    this.#loop = new Loop(() => this.#look(), parts)
  }

  start(): void {
    this.#loop.start()
  }

  stop(): Promise<void> {
    return this.#loop.stop()
  }

  /** Jobs were claimed, so there is something to look for. */
  begin(): void {
    this.#loop.tickWithin(LOOK_EVERY_MS)
  }

  lookNow(): void {
    this.#loop.nudge()
  }

  async #look(): Promise<number> {
    const held = this.#parts.slots.jobs('behind', 'waiting', 'running')
    if (held.length === 0) return Number.POSITIVE_INFINITY
    const wanted = new Set(
      await cancelRequests(
        this.#lane,
        held.map(({ claimed }) => claimed),
      ),
    )
    for (const job of held) if (wanted.has(job.claimed.jobId)) this.#parts.cancel(job)
    // A pause does not touch jobs that run.
    if (held.some(({ state }) => state !== 'running')) this.#parts.pause(await pausedNow(this.#lane))
    return LOOK_EVERY_MS
  }
}
