import { monotonicMs } from '../core/timer.ts'
import type { Paused } from '../jobs/pause.ts'

/** What was paused since the last claim was sent, or may have been. */
export class Pauses {
  #paused: (Paused & { readonly heardAt: number }) | undefined

  note(paused: Paused): void {
    const queues = new Set([...(this.#paused?.queues ?? []), ...paused.queues])
    const kinds = new Set([...(this.#paused?.kinds ?? []), ...paused.kinds])
    this.#paused = { queues, kinds, heardAt: monotonicMs() }
  }

  /** A claim that was sent before this worker heard of a pause may have been carried out before the pause. */
  since(sentAt: number): Paused | undefined {
    if (this.#paused !== undefined && sentAt > this.#paused.heardAt) this.#paused = undefined
    return this.#paused
  }
}
