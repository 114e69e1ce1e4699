import type { Signal } from './journal.ts'

/** The signals that a run has not consumed, in the order in which they were sent. */
export class ReceivedSignals {
  readonly #signals: Signal[]

  constructor(signals: readonly Signal[]) {
    this.#signals = [...signals]
  }

  /** The first of this name. It stays until a record consumes it. */
  find(name: string): Signal | undefined {
    return this.#signals.find((signal) => signal.name === name)
  }

  remove(signal: Signal): void {
    this.#signals.splice(this.#signals.indexOf(signal), 1)
  }

  /** Whether some of these were not known. */
  add(signals: readonly Signal[]): boolean {
    const known = new Set(this.#signals.map(({ id }) => id))
    const fresh = signals.filter(({ id }) => !known.has(id))
    this.#signals.push(...fresh)
    return fresh.length > 0
  }
}
