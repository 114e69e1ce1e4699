/**
 * A toy queue, in the demo's own process, which delivers at least once: every message twice or more, and again if it is not
 * acknowledged in time. It keeps nothing on disk. It decides which worker gets what, so that nothing here depends on luck.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Crew, WorkerProcess } from './crew.ts'
import type { Way } from './messages.ts'
import { HIDDEN_MS } from './scale.ts'

export class ToyQueue {
  readonly #crew: Crew
  readonly #signal: AbortSignal
  readonly #times = new Map<number, number>()
  readonly #underWay = new Set<Promise<boolean>>()
  /** How messages are handled from now on. */
  way: Way = 'naive'

  constructor(crew: Crew, signal: AbortSignal) {
    this.#crew = crew
    this.#signal = signal
  }

  /** Delivers a message, and once more when it was acknowledged, as such queues do at times. */
  async send(id: number): Promise<void> {
    await this.deliver(id)
    await this.deliver(id)
  }

  /**
   * Delivers a message to one worker, and if it is not acknowledged in time, to another one. The time begins with `since`,
   * so that the state of each worker is certain.
   */
  async sendTo(first: WorkerProcess, id: number, since: Promise<unknown>): Promise<void> {
    const timeIsUp = since.then(() => sleep(HIDDEN_MS, false, { signal: this.#signal }))
    const acknowledged = this.deliver(id, first).then((isAcknowledged) => isAcknowledged || timeIsUp)
    if (!(await Promise.race([acknowledged, timeIsUp]))) await this.deliver(id, this.#crew.next(first))
  }

  /** Whether it was acknowledged. False: it never will be. */
  deliver(id: number, worker = this.#crew.next()): Promise<boolean> {
    this.#times.set(id, (this.#times.get(id) ?? 0) + 1)
    const delivery = worker.deliver(id, this.way)
    this.#underWay.add(delivery)
    return delivery.finally(() => this.#underWay.delete(delivery))
  }

  /** Resolves when no delivery is in flight any more, not even late ones. */
  async untilIdle(): Promise<void> {
    while (this.#underWay.size > 0) await Promise.all(this.#underWay)
  }

  /** Messages that were delivered so many times or more. */
  deliveredAtLeast(times: number): number {
    return [...this.#times.values()].filter((count) => count >= times).length
  }
}
