/** Whether the jobs of each key start in the order of their enqueues, and one after the other. */
export class OrderWatch {
  readonly #last = new Map<string, number>()
  readonly #running = new Set<string>()

  /** Throws when the job is out of order. The queue would retry it, so the failure is also reported. */
  started(key: string, orderId: number): void {
    if (this.#running.has(key)) throw new Error(`order ${orderId} of ${key} started before the one in front had ended`)
    const last = this.#last.get(key) ?? 0
    if (orderId <= last) throw new Error(`order ${orderId} of ${key} started after order ${last}`)
    this.#running.add(key)
    this.#last.set(key, orderId)
  }

  ended(key: string): void {
    this.#running.delete(key)
  }
}
