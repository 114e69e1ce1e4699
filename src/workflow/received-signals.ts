import type { Signal } from './journal.ts'

/** The signals that a run has not consumed, in the order in which they were sent. */
export class ReceivedSignals {
  readonly #signals: Signal[] = []
  /** Also those that were taken: a look that began before their record was stored finds them again. */
  readonly #known = new Set<string>()

  constructor(signals: readonly Signal[]) {
    this.add(signals)
  }

  /** The first of this name, for one wait only. */
  take(name: string): Signal | undefined {
    const index = this.#signals.findIndex((signal) => signal.name === name)
    return index < 0 ? undefined : this.#signals.splice(index, 1)[0]
  }

  /** Whether some of these were not known. */
  add(signals: readonly Signal[]): boolean {
    const fresh = signals.filter(({ id }) => !this.#known.has(id))
    for (const { id } of fresh) this.#known.add(id)
    this.#signals.push(...fresh)
    return fresh.length > 0
  }
}
