import type { Kind } from '../core/kind.ts'
import { monotonicMs } from '../core/timer.ts'
import type { Lane } from '../db/lane.ts'
import type { Worker } from '../jobs/job.ts'
import { registerWorker, workerStopped } from '../jobs/registry.ts'
import { VERSION } from '../version.ts'

const SEEN_EVERY_MS = 30_000

/** One worker's row in the registry: written before its first claim, kept up to date while it runs. */
export class Registration {
  readonly #lane: Lane
  readonly #worker: Worker
  readonly #goodbye: Lane
  readonly #kinds = new Set<string>()
  readonly #queues = new Set<string>()
  #wasSent = false
  /** When the last registration that succeeded was sent. */
  #seenAt = Number.NEGATIVE_INFINITY
  #sending: Promise<void> | undefined

  /** `goodbye`: how to note that the worker has stopped, if not over the same lane. */
  constructor(lane: Lane, worker: Worker, goodbye = lane) {
    this.#lane = lane
    this.#worker = worker
    this.#goodbye = goodbye
  }

  /**
   * Registers the worker if it is not, if one of these kinds is new, or if it was not seen for 30 s. Returns after how many
   * milliseconds that will be due again. Throws the database's error; call it again.
   */
  async renew(kinds: readonly Kind[] = []): Promise<number> {
    this.#add(kinds)
    while (this.#dueInMs <= 0) {
      this.#sending ??= this.#send()
      await this.#sending
    }
    return this.#dueInMs
  }

  /** Notes that the worker has stopped, if it ever registered. */
  async stopped(): Promise<void> {
    if (this.#wasSent) await workerStopped(this.#goodbye, this.#worker)
  }

  get #dueInMs(): number {
    return this.#seenAt + SEEN_EVERY_MS - monotonicMs()
  }

  #add(kinds: readonly Kind[]): void {
    const known = this.#size
    for (const { name, queue } of kinds) {
      this.#kinds.add(name)
      this.#queues.add(queue)
    }
    if (this.#size > known) this.#seenAt = Number.NEGATIVE_INFINITY
  }

  get #size(): number {
    return this.#kinds.size + this.#queues.size
  }

  async #send(): Promise<void> {
    const [sentAt, known] = [monotonicMs(), this.#size]
    this.#wasSent = true
    try {
      const info = { version: VERSION, kinds: [...this.#kinds].sort(), queues: [...this.#queues].sort() }
      await registerWorker(this.#lane, this.#worker, info)
      // With names that were added meanwhile it is sent once more.
      if (this.#size === known) this.#seenAt = sentAt
    } finally {
      this.#sending = undefined
    }
  }
}
