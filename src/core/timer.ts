/** The only place that sets timers, all on the monotonic clock: a jump of the wall clock changes nothing. */

const LONGEST_MS = 2 ** 31 - 1

/** Milliseconds on a clock that never goes back. */
export function monotonicMs(): number {
  return performance.now()
}

/** Resolves after `ms`, or at once when the signal aborts. Never rejects. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve()
    const done = () => {
      clearTimeout(timer)
      signal?.removeEventListener('abort', done)
      resolve()
    }
    const timer = setTimeout(done, Math.min(ms, LONGEST_MS))
    signal?.addEventListener('abort', done)
  })
}

/** A wait that can be ended or shortened. One at a time. */
export class Pause {
  #timer: NodeJS.Timeout | undefined
  #endsAt = Number.POSITIVE_INFINITY
  #end: (() => void) | undefined

  /** Resolves after `ms`, or when it is ended. */
  wait(ms: number): Promise<void> {
    return new Promise((resolve) => {
      this.#end = resolve
      this.#set(monotonicMs() + ms)
    })
  }

  /** Ends the current wait, if any, at this moment at the latest. */
  endBy(at: number): void {
    if (this.#end !== undefined && at < this.#endsAt) this.#set(at)
  }

  /** Ends the current wait, if any. */
  end(): void {
    const end = this.#end
    if (end === undefined) return
    this.#end = undefined
    clearTimeout(this.#timer)
    end()
  }

  #set(at: number): void {
    clearTimeout(this.#timer)
    this.#endsAt = at
    // Node cuts off the fraction, so the timer would fire early, find nothing due and be set again.
    const ms = Math.min(Math.max(0, Math.ceil(at - monotonicMs())), LONGEST_MS)
    this.#timer = setTimeout(() => this.end(), ms)
  }
}

/** Rejects with `late()` if the promise has not settled within `ms`. The promise itself goes on. */
export function withDeadline<T>(promise: Promise<T>, ms: number, late: () => Error): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(late()), Math.min(ms, LONGEST_MS))
    promise.then(resolve, reject).finally(() => clearTimeout(timer))
  })
}

/** Rings once, at the moment it was last set to. Keeps the process alive only if asked to. */
export class Alarm {
  readonly #ring: () => void
  readonly #keepsAlive: boolean
  #timer: NodeJS.Timeout | undefined
  #at = Number.POSITIVE_INFINITY

  constructor(ring: () => void, { keepsAlive = false }: { readonly keepsAlive?: boolean } = {}) {
    this.#ring = ring
    this.#keepsAlive = keepsAlive
  }

  /** Rings at this moment, unless it is set to an earlier one. */
  setEarlier(at: number): void {
    if (at < this.#at) this.set(at)
  }

  /** Moves the alarm to this moment on the monotonic clock; infinity switches it off. */
  set(at: number): void {
    if (at === this.#at) return
    clearTimeout(this.#timer)
    this.#at = at
    if (at === Number.POSITIVE_INFINITY) return
    const wait = Math.min(Math.max(0, Math.ceil(at - monotonicMs())), LONGEST_MS)
    this.#timer = setTimeout(() => {
      this.#at = Number.POSITIVE_INFINITY
      this.#ring()
    }, wait)
    if (!this.#keepsAlive) this.#timer.unref()
  }
}
