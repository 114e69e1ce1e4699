/** How this process is doing, for its row in the registry. */
import { hostname } from 'node:os'
import { type IntervalHistogram, monitorEventLoopDelay } from 'node:perf_hooks'

/**
 * The histogram records the time between two ticks, which is this long when the event loop is idle. Each tick wakes the process:
 * fifty a second cost 1.8 ms of processor time, and two cost 0.1.
 */
const RESOLUTION_MS = 500

export class EventLoopDelay {
  #ticks: IntervalHistogram | undefined

  /** Measures from now on: two ticks a second, which keep no process alive. */
  start(): void {
    this.#ticks ??= monitorEventLoopDelay({ resolution: RESOLUTION_MS })
    this.#ticks.enable()
  }

  stop(): void {
    this.#ticks?.disable()
    this.#ticks = undefined
  }

  /** The longest delay since the last call. Null: it does not measure, or there was no tick. */
  takeMs(): number | null {
    const ticks = this.#ticks
    if (ticks === undefined || ticks.count === 0) return null
    const ms = ticks.max / 1e6 - RESOLUTION_MS
    ticks.reset()
    return Math.max(0, Math.round(ms * 10) / 10)
  }
}

export const HOST = hostname()

export function memoryBytes(): number {
  return process.memoryUsage.rss()
}

/** Of the container or cgroup. Null: there is none, or none is known. */
export function memoryLimitBytes(): number | null {
  const limit = process.constrainedMemory()
  return limit > 0 && limit < Number.MAX_SAFE_INTEGER ? limit : null
}
