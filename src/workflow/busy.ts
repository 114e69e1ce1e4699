import type { Stillness } from './stillness.ts'

/** Counts what is under way for a run's code: steps that run, and records on their way. */
export class Busy {
  #count = 0
  readonly #whenNone: (() => void)[] = []
  readonly #stillness: Stillness

  constructor(stillness: Stillness) {
    this.#stillness = stillness
  }

  get isBusy(): boolean {
    return this.#count > 0
  }

  async while<T>(work: () => Promise<T>): Promise<T> {
    this.#count++
    try {
      return await work()
    } finally {
      this.#count--
      this.#stillness.called()
      if (this.#count === 0) for (const resolve of this.#whenNone.splice(0)) resolve()
    }
  }

  /** Resolves when nothing is under way, and the code has come to rest. */
  async rest(): Promise<void> {
    do {
      if (this.#count > 0) await new Promise<void>((resolve) => this.#whenNone.push(resolve))
      await this.#stillness.rest()
    } while (this.#count > 0)
  }
}
