/**
 * The one loop. It repeats a `tick`, which returns how many milliseconds to wait until the next; nudge() ends the wait, and
 * tickWithin() shortens it. A tick that fails is reported and retried after a jittered backoff, up to five seconds, for as long
 * as it fails. So no error escapes a loop, and none makes it spin.
 */
import { backoffMs } from '../core/backoff.ts'
import { monotonicMs, Pause } from '../core/timer.ts'

const FIRST_BACKOFF_MS = 50
const SLOWEST_MS = 5_000

export interface LoopEvents {
  problem(error: unknown): void
  /** A tick has succeeded, after one or more that did not. */
  worksAgain?(): void
}

export class Loop {
  readonly #tick: () => Promise<number>
  readonly #events: LoopEvents
  readonly #slowestMs: number
  readonly #pause = new Pause()
  #stopped = false
  #nudged = false
  /** When the next tick is due at the latest. */
  #dueBy = Number.POSITIVE_INFINITY
  #failures = 0
  #running: Promise<void> | undefined

  constructor(tick: () => Promise<number>, events: LoopEvents, slowestMs = SLOWEST_MS) {
    this.#tick = tick
    this.#events = events
    this.#slowestMs = Math.min(slowestMs, SLOWEST_MS)
  }

  start(): void {
    this.#running ??= this.#run()
  }

  /** Tick now, or once more if it is ticking. Does not shorten the wait after a failure. */
  nudge(): void {
    this.#nudged = true
    if (this.#failures === 0) this.#pause.end()
  }

  /** Tick in `ms` at the latest. Does not shorten the wait after a failure. */
  tickWithin(ms: number): void {
    const at = monotonicMs() + ms
    if (at >= this.#dueBy) return
    this.#dueBy = at
    if (this.#failures === 0) this.#pause.endBy(at)
  }

  /** No further tick. Resolves when the one under way has ended. */
  async stop(): Promise<void> {
    this.#stopped = true
    this.#pause.end()
    await this.#running
  }

  async #run(): Promise<void> {
    while (!this.#stopped) {
      this.#nudged = false
      this.#dueBy = Number.POSITIVE_INFINITY
      let waitMs: number
      try {
        waitMs = await this.#tick()
        if (this.#failures > 0) this.#events.worksAgain?.()
        this.#failures = 0
      } catch (error) {
        this.#failures++
        this.#events.problem(error)
        waitMs = backoffMs(this.#failures, { firstMs: FIRST_BACKOFF_MS, maxMs: this.#slowestMs })
      }
      if (this.#failures === 0) waitMs = this.#nudged ? 0 : Math.min(waitMs, this.#dueBy - monotonicMs())
      if (this.#stopped || waitMs <= 0) continue
      await this.#pause.wait(waitMs)
    }
  }
}
