/** The parts that run now, and a call for each that begins to. */
export class RunningSet<Part> implements Iterable<Part> {
  readonly #parts = new Set<Part>()
  readonly #listeners: ((part: Part) => void)[] = []

  /** Calls back for each part that runs, and for each that starts later. */
  onEach(listener: (part: Part) => void): void {
    this.#listeners.push(listener)
    for (const part of this.#parts) listener(part)
  }

  add(part: Part): void {
    this.#parts.add(part)
    for (const listener of this.#listeners) listener(part)
  }

  delete(part: Part): void {
    this.#parts.delete(part)
  }

  [Symbol.iterator](): Iterator<Part> {
    return this.#parts.values()
  }
}
