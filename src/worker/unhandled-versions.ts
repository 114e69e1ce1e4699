/** Announces runs of workflows whose version no live worker handles. They wait, and spend no attempt. */
import type { Lane } from '../db/lane.ts'
import { unhandledKinds } from '../jobs/registry.ts'
import type { Events } from './events.ts'

const WAITED_MS = 60_000
const AGAIN_AFTER_LOOKS = 60

export class UnhandledVersions {
  readonly #lane: Lane
  /** Those of workflows. */
  readonly #queues: readonly string[]
  readonly #events: Events
  /** Looks since it was announced, by kind. */
  readonly #announced = new Map<string, number>()

  constructor(lane: Lane, queues: readonly string[], events: Events) {
    this.#lane = lane
    this.#queues = queues
    this.#events = events
  }

  async look(): Promise<void> {
    const found = await unhandledKinds(this.#lane, this.#queues, WAITED_MS)
    const kinds = new Set(found.map(({ kind }) => kind))
    for (const known of [...this.#announced.keys()]) if (!kinds.has(known)) this.#announced.delete(known)
    for (const waiting of found) {
      const looks = this.#announced.get(waiting.kind) ?? 0
      this.#announced.set(waiting.kind, (looks + 1) % AGAIN_AFTER_LOOKS)
      if (looks > 0) continue
      this.#events.emit('unhandled_version', waiting)
      const { kind, queue, jobs } = waiting
      const message = `${jobs} runs of ${kind} wait, and no live worker handles that version; start one that does`
      this.#events.log({ level: 'error', message, kind, queue })
    }
  }
}
