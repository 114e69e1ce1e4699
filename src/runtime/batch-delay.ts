/**
 * Calls to SQS cost about a millisecond of processor time each, and money, whether they are about one message or ten. So what
 * is not ten yet waits while handlers run, as they may end any moment; but only for a moment, and not at all when no handler runs.
 */
import { Alarm, monotonicMs } from '../core/timer.ts'

const MOMENT_MS = 25

export class BatchDelay {
  readonly #start: () => void
  readonly #isWorthWaiting: () => boolean
  readonly #alarm: Alarm
  #isDue = false

  constructor(start: () => void, isWorthWaiting: () => boolean) {
    this.#start = start
    this.#isWorthWaiting = isWorthWaiting
    this.#alarm = new Alarm(start, { keepsAlive: true })
  }

  /** There may be something to start. What comes in the same turn goes together. */
  nudge(): void {
    if (this.#isDue) return
    this.#isDue = true
    setImmediate(() => {
      this.#isDue = false
      if (this.#isWorthWaiting()) return this.#alarm.setEarlier(monotonicMs() + MOMENT_MS)
      this.#alarm.set(Number.POSITIVE_INFINITY)
      this.#start()
    })
  }
}
