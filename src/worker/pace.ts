/** How fast this worker uses jobs up, by the last tenth of a second, and how many it may therefore hold ahead. */
import { monotonicMs } from '../core/timer.ts'

const AHEAD_MS = 100
const AHEAD_ROUND_TRIPS = 4
const AHEAD_MS_AT_MOST = 1_000
const AHEAD_BYTES = 2 ** 25
/** The mean is that of about so many jobs. */
const MEAN_OF = 32
const MEASURE_EVERY_MS = 10
/** What was measured this long ago counts for a third. */
const MEMORY_MS = 100

export class Pace {
  /** Of the last claim, from sending to its answer. */
  roundTripMs = 0
  /** Handlers that have ended since the last measurement. */
  ended = 0
  #perMs = 0
  #meanRunning = 0
  #measuredAt = monotonicMs()
  #meanBytes: number | undefined

  /** An input of so many characters was claimed. */
  noteInput(bytes: number): void {
    this.#meanBytes = this.#meanBytes === undefined ? bytes : this.#meanBytes + (bytes - this.#meanBytes) / MEAN_OF
  }

  /** `running`: how many run now. */
  measure(running: () => number): void {
    const elapsed = monotonicMs() - this.#measuredAt
    if (elapsed < MEASURE_EVERY_MS) return
    const old = Math.exp(-elapsed / MEMORY_MS)
    this.#perMs = old * this.#perMs + (1 - old) * (this.ended / elapsed)
    this.#meanRunning = old * this.#meanRunning + (1 - old) * running()
    this.ended = 0
    this.#measuredAt += elapsed
  }

  /** Jobs that it uses up in a tenth of a second, or in four round trips. */
  ahead(atMost: number): number {
    const windowMs = Math.min(Math.max(AHEAD_MS, AHEAD_ROUND_TRIPS * this.roundTripMs), AHEAD_MS_AT_MOST)
    return Math.min(atMost, this.#perMs * windowMs, AHEAD_BYTES / Math.max(1, this.#meanBytes ?? 0))
  }

  /** The same for each of the jobs that run at a time. */
  aheadOfEach(atMost: number): number {
    return this.ahead(atMost) / Math.max(1, this.#meanRunning)
  }
}
