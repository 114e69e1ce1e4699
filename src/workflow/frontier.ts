/** Calls of a run's code that are not on record, and wait until the replay is over: from there on the run does something new. */
export class Frontier {
  #waiting: { resolve(): void; reject(error: unknown): void }[] = []
  #asking: ((isNew: boolean) => void)[] = []

  /** No call has come so far. */
  get isEmpty(): boolean {
    return this.#waiting.length + this.#asking.length === 0
  }

  /** Code waits to know whether it comes here for the first time. */
  get isAsked(): boolean {
    return this.#asking.length > 0
  }

  /** Resolves when the run may do something new. */
  pass(): Promise<void> {
    return new Promise((resolve, reject) => this.#waiting.push({ resolve, reject }))
  }

  isNew(): Promise<boolean> {
    return new Promise((resolve) => this.#asking.push(resolve))
  }

  answer(isNew: boolean): void {
    for (const answer of this.#asking.splice(0)) answer(isNew)
  }

  open(): void {
    this.answer(true)
    for (const { resolve } of this.#waiting.splice(0)) resolve()
  }

  reject(error: unknown): void {
    for (const { reject } of this.#waiting.splice(0)) reject(error)
  }
}
