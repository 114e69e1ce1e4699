/** What the branches of a run wait for at the moment. */

/** What a wait ended with; undefined while it has not. */
export type Ready<T> = () => T | undefined

interface Waiting {
  readonly names: readonly string[]
  readonly until: number
  /** Whether it has ended. */
  look(): boolean
  reject(error: unknown): void
}

export class OpenWaits {
  readonly #waiting = new Set<Waiting>()

  get size(): number {
    return this.#waiting.size
  }

  /** The signals that may end one of them. */
  get names(): string[] {
    return [...new Set([...this.#waiting].flatMap(({ names }) => names))]
  }

  /** When the first of them ends by itself, on the monotonic clock. */
  get until(): number {
    return Math.min(Number.POSITIVE_INFINITY, ...[...this.#waiting].map(({ until }) => until))
  }

  /** Resolves when `ready` has an answer. */
  add<T>(names: readonly string[], until: number, ready: Ready<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const look = () => {
        const answer = ready()
        if (answer !== undefined) resolve(answer)
        return answer !== undefined
      }
      if (!look()) this.#waiting.add({ names, until, look, reject })
    })
  }

  look(): void {
    for (const waiting of [...this.#waiting]) if (waiting.look()) this.#waiting.delete(waiting)
  }

  /** They never end. */
  forget(): void {
    this.#waiting.clear()
  }

  reject(error: unknown): void {
    const all = [...this.#waiting]
    this.#waiting.clear()
    for (const { reject } of all) reject(error)
  }
}
