/** Wakes runs of workflows when a signal is announced: those that are parked, and those that are executing here. */
import type { Lane } from '../db/lane.ts'
import { wakeSignalled } from '../jobs/signals.ts'
import { Loop, type LoopEvents } from '../runtime/loop.ts'
import type { Handler } from './handler.ts'

export class RunSignals {
  readonly #handlers: readonly Handler[]
  readonly #loop: Loop

  constructor(lane: Lane, handlers: readonly Handler[], events: LoopEvents) {
    this.#handlers = handlers.filter(({ onSignal }) => onSignal !== undefined)
    const tick = async () => {
      await wakeSignalled(lane)
      return Number.POSITIVE_INFINITY
    }
    this.#loop = new Loop(tick, events)
  }

  /** Of workflows. */
  get queues(): string[] {
    return [...new Set(this.#handlers.map(({ kind }) => kind.queue))]
  }

  start(): void {
    if (this.#handlers.length > 0) this.#loop.start()
  }

  stop(): Promise<void> {
    return this.#loop.stop()
  }

  announced(): void {
    if (this.#handlers.length > 0) this.#loop.nudge()
    for (const { onSignal } of this.#handlers) onSignal!()
  }
}
