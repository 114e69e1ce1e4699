/**
 * Notices when code has come to rest: two turns of the event loop have passed in which it called nothing. A turn lets every
 * promise that can go on do so, however long the chain is.
 */
import { setImmediate } from 'node:timers/promises'

export class Stillness {
  readonly #onRest: () => void
  #calls = 0
  #isWatching = false

  /** `onRest` is called once after each watch(). */
  constructor(onRest: () => void) {
    this.#onRest = onRest
  }

  /** How many there were. */
  get calls(): number {
    return this.#calls
  }

  /** The code has called something, or something that it waits for has happened. */
  called(): void {
    this.#calls++
  }

  watch(): void {
    this.#calls++
    if (this.#isWatching) return
    this.#isWatching = true
    void this.rest().then(() => {
      this.#isWatching = false
      this.#onRest()
    })
  }

  /** Resolves when the code has come to rest. */
  async rest(): Promise<void> {
    for (let before = -1; before !== this.#calls; ) {
      before = this.#calls
      await setImmediate()
      await setImmediate()
    }
  }
}
