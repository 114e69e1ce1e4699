import { monotonicMs } from '../core/timer.ts'
import type { Signal } from './journal.ts'

/** The signals that a run has not consumed, in the order in which they were sent. */
export class ReceivedSignals {
  readonly #byName = new Map<string, Signal[]>()
  /** Also those that were taken: a look that began before their record was stored finds them again. */
  readonly #known = new Set<string>()
  readonly #hasAll: boolean
  readonly #loadedAt = monotonicMs()
  /** Names of waits: a signal may have come before them, and after the run was loaded. */
  readonly #unasked = new Set<string>()
  readonly #receive: (names: readonly string[]) => Promise<readonly Signal[]>

  /** Undefined: there are many. Those of a name are asked for when the run waits for it. */
  constructor(
    signals: readonly Signal[] | undefined,
    receive: (names: readonly string[]) => Promise<readonly Signal[]>,
  ) {
    this.#hasAll = signals !== undefined
    this.#receive = receive
    this.add(signals ?? [])
  }

  /** Asks for signals of these names, if some may have been left out. */
  async prepare(names: readonly string[]): Promise<void> {
    const missing = this.#hasAll ? [] : names.filter((name) => !this.#byName.has(name))
    if (missing.length > 0) this.add(await this.#receive(missing))
  }

  /** For a wait. If its time has come since the run was loaded: a signal that came first wins. */
  async renew(names: readonly string[], until = this.#loadedAt): Promise<void> {
    const isDue = until > this.#loadedAt && until <= monotonicMs()
    if (isDue && names.length > 0) this.add(await this.#receive(names))
    else for (const name of names) this.#unasked.add(name)
  }

  /** Names that a run which does not park has to ask for. */
  get unasked(): string[] {
    return [...this.#unasked]
  }

  async ask(names: readonly string[]): Promise<void> {
    if (names.length === 0) return
    for (const name of names) this.#unasked.delete(name)
    try {
      this.add(await this.#receive(names))
    } catch {
      // The next signal, or the next claim, looks again.
    }
  }

  /** The first of this name, for one wait only. */
  take(name: string): Signal | undefined {
    const signals = this.#byName.get(name)
    const first = signals?.shift()
    if (signals?.length === 0) this.#byName.delete(name)
    return first
  }

  /** Whether some of these were not known. */
  add(signals: readonly Signal[]): boolean {
    const fresh = signals.filter(({ id }) => !this.#known.has(id))
    for (const signal of fresh) {
      this.#known.add(signal.id)
      const ofName = this.#byName.get(signal.name)
      if (ofName === undefined) this.#byName.set(signal.name, [signal])
      else ofName.push(signal)
    }
    return fresh.length > 0
  }
}
