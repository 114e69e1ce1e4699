// The clocks of this process, moved by a test. They also run by themselves: give things a longer life than a busy machine
// may take, and move the clock to their end.
import type { TestContext } from 'node:test'
import { until } from './until.ts'

export interface MovableClock {
  pass(ms: number): void
}

/** The monotonic clock only; timers do not follow it. `stands`: time passes only by pass(). */
export function movableClock(t: TestContext, { stands = false } = {}): MovableClock {
  let passed = 0
  const now = performance.now.bind(performance)
  const start = Math.floor(now()) // Sums of whole milliseconds are exact.
  t.mock.method(performance, 'now', () => (stands ? start : now()) + passed)
  return {
    pass: (ms) => {
      passed += ms
    },
  }
}

const NEVER_MS = 2 ** 31 - 1

type SetTimer = (callback: (...args: unknown[]) => void, ms?: number, ...args: unknown[]) => NodeJS.Timeout

export interface MovableTimers extends MovableClock {
  /** In how many milliseconds the timers that were set ring. Exact while the clock stands. */
  waiting(): number[]
}

/** Timers set from now on follow it, and so does the time of day. pass() rings the due timers in their order. */
export function movableTimers(t: TestContext, { runByThemselves = true, stands = false } = {}): MovableTimers {
  const clock = movableClock(t, { stands })
  let passed = 0
  const timeOfDay = Date.now
  t.mock.method(Date, 'now', () => timeOfDay() + passed)
  const waiting = new Map<NodeJS.Timeout, { readonly at: number; ring(): void }>()
  const set = globalThis.setTimeout as SetTimer
  const clear = globalThis.clearTimeout
  const setMovable: SetTimer = (callback, ms = 1, ...args) => {
    const ring = () => {
      waiting.delete(timer)
      callback(...args)
    }
    const timer = set(ring, runByThemselves ? ms : NEVER_MS)
    waiting.set(timer, { at: performance.now() + ms, ring })
    return timer
  }
  t.mock.method(globalThis, 'setTimeout', setMovable as typeof setTimeout)
  t.mock.method(globalThis, 'clearTimeout', (timer: NodeJS.Timeout) => {
    waiting.delete(timer)
    clear(timer)
  })
  return {
    waiting: () => [...waiting.values()].map(({ at }) => at - performance.now()),
    pass: (ms) => {
      clock.pass(ms)
      passed += ms
      const due = [...waiting].filter(([, { at }]) => at <= performance.now())
      for (const [timer, { ring }] of due.sort(([, one], [, other]) => one.at - other.at)) {
        if (!waiting.has(timer)) continue // An earlier timer has cleared it.
        clear(timer)
        ring()
      }
    },
  }
}

/** Lets seconds pass until it has resolved. */
export async function passUntil(clock: MovableClock, awaited: Promise<unknown>): Promise<void> {
  let isOver = false
  void awaited.then(() => {
    isOver = true
  })
  await until('it is over', () => {
    clock.pass(1_000)
    return isOver
  })
}
