/**
 * Announces keys of ordered queues in which jobs have waited for long behind the same job. If that job could run, its key is looked
 * at again.
 */
import type { Lane } from '../db/lane.ts'
import { checkOrder, longWaitingKeys, lookAgain } from '../jobs/order.ts'
import type { Events } from './events.ts'

const WAITED_MS = 300_000
/** Of those that were announced. */
const REMEMBERED = 10_000

export class WaitingKeys {
  readonly #lane: Lane
  readonly #queues: readonly string[]
  readonly #events: Events
  readonly #announced = new Set<string>()

  constructor(lane: Lane, queues: readonly string[], events: Events) {
    this.#lane = lane
    this.#queues = queues
    this.#events = events
  }

  async look(): Promise<void> {
    if (!(await checkOrder(this.#lane, this.#queues))) return
    const waiting = await longWaitingKeys(this.#lane, this.#queues, WAITED_MS)
    const ready = waiting.filter(({ why }) => why === 'ready')
    await lookAgain(this.#lane, ready)
    for (const key of waiting) {
      const id = `${key.jobId} ${key.why}`
      if (this.#announced.has(id)) continue
      if (this.#announced.size >= REMEMBERED) this.#announced.clear()
      this.#announced.add(id)
      this.#events.emit('key_waiting', key)
      const { queue, partitionKey, jobId, waiting, why, forMs } = key
      this.#events.log({
        level: 'warn',
        message: `${waiting} jobs of key ${partitionKey} wait behind job ${jobId} (${why}) for ${Math.round(forMs / 1_000)} s`,
        jobId,
        queue,
        partitionKey,
      })
    }
  }
}
