import { BUCKETS } from '../core/bucket.ts'
import type { Lane } from '../db/lane.ts'
import { queuesWithoutSeats } from '../jobs/ring.ts'
import type { Events } from './events.ts'

const ALL_BUCKETS = Array.from({ length: BUCKETS }, (_, bucket) => bucket)

/** Announces queues on the ring in which jobs wait and no worker has a seat. The workers of any queue look, one of them at a time. */
export class QueuesWithoutSeats {
  readonly #lane: Lane
  readonly #events: Events
  #found: ReadonlySet<string> = new Set()
  readonly #announced = new Set<string>()

  constructor(lane: Lane, events: Events) {
    this.#lane = lane
    this.#events = events
  }

  /**
   * Each is announced once, until it has a seat or no job waits; and at the second look, since a queue that has just been put on the ring has
   * no seats for a moment.
   */
  async look(): Promise<void> {
    const found = new Map((await queuesWithoutSeats(this.#lane)).map(({ queue, epoch }) => [queue, epoch]))
    for (const queue of this.#announced) if (!found.has(queue)) this.#announced.delete(queue)
    for (const [queue, epoch] of found) {
      if (!this.#found.has(queue) || this.#announced.has(queue)) continue
      this.#announced.add(queue)
      this.#events.emit('unowned', { queue, buckets: ALL_BUCKETS, epoch })
      const message = `jobs of queue ${queue} wait, and no running worker handles it; start one, or take the queue off the ring`
      this.#events.log({ level: 'warn', message, queue })
    }
    this.#found = new Set(found.keys())
  }
}
