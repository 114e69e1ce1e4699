/**
 * The one run of a long-running part: it starts, works until stop() or a signal, drains, and ends.
 *
 * A drain has four steps. The part takes nothing new; handlers get the grace period; those that still run are aborted and get a
 * moment to end; then the rest is released. A second stop with a grace of 0, which is what a second signal does, cuts the waiting
 * short.
 */
import { type Duration, durationMs } from '../core/duration.ts'
import { checkOptions } from '../core/options.ts'

/** After their signal was aborted, handlers have this long to end. */
const ABORTED_FOR_MS = 1_000

export interface StopOptions {
  /** How long handlers have to end. Default: that of the worker or consumer. */
  readonly grace?: Duration
}

export interface LifecycleParts {
  readonly signals: readonly NodeJS.Signals[]
  readonly graceMs: number
  /** Begins to work. If it rejects, so does run(). */
  start(): Promise<void>
  /** Takes nothing new. Resolves when that is certain. */
  close(graceMs: number): Promise<unknown>
  /** Resolves when no handler runs, after `ms`, or when the signal aborts. */
  untilIdle(ms: number, hurry: AbortSignal): Promise<void>
  abortHandlers(): void
  /** Releases what is left, and records what has ended. */
  finish(closed: Promise<unknown>): Promise<void>
  /** The last step, also of a run that could not start. If it rejects, so does run(). */
  end(): Promise<void>
}

export class Lifecycle {
  readonly #parts: LifecycleParts
  readonly #hurry = new AbortController()
  readonly #stopAsked = new AbortController()
  readonly #drained: Promise<void>
  #setDrained: () => void = () => {}
  #running: Promise<void> | undefined
  #draining: Promise<void> | undefined

  constructor(parts: LifecycleParts) {
    this.#parts = parts
    this.#drained = new Promise((resolve) => {
      this.#setDrained = resolve
    })
  }

  get isStopping(): boolean {
    return this.#stopAsked.signal.aborted
  }

  /** Aborts when a stop is asked for. */
  get stopAsked(): AbortSignal {
    return this.#stopAsked.signal
  }

  run(): Promise<void> {
    this.#running ??= this.#run()
    return this.#running
  }

  async stop(options: StopOptions = {}): Promise<void> {
    checkOptions('stop', options, ['grace'])
    const graceMs = options.grace === undefined ? this.#parts.graceMs : durationMs('stop.grace', options.grace)
    if (graceMs === 0) this.#hurry.abort()
    this.#stopAsked.abort()
    this.#draining ??= this.#drain(graceMs)
    await this.#draining
    await this.#running?.catch(() => {})
  }

  async #run(): Promise<void> {
    if (this.isStopping) return
    const unhook = this.#stopOnSignals()
    try {
      await this.#parts.start()
      await this.#drained
    } finally {
      unhook()
      await this.#parts.end()
    }
  }

  async #drain(graceMs: number): Promise<void> {
    const { signal } = this.#hurry
    const closed = this.#parts.close(graceMs)
    await this.#parts.untilIdle(graceMs, signal)
    this.#parts.abortHandlers()
    await this.#parts.untilIdle(ABORTED_FOR_MS, signal)
    await this.#parts.finish(closed)
    this.#setDrained()
  }

  /** The first signal lets handlers finish, the second does not, a third is Node's own business. Returns how to unhook. */
  #stopOnSignals(): () => void {
    const { signals } = this.#parts
    const unhook = () => {
      for (const signal of signals) process.off(signal, onSignal)
    }
    const onSignal = () => {
      if (this.isStopping) unhook()
      void this.stop(this.isStopping ? { grace: 0 } : {})
    }
    for (const signal of signals) process.on(signal, onSignal)
    return unhook
  }
}
