/**
 * In development: warns when a kind is enqueued that no live worker handles. Mostly the worker does not run, or the kind is missing
 * from its handlers.
 *
 * The registry is asked a few seconds after an enqueue, by a statement of its own: the enqueue does not wait for it, the
 * caller's transaction holds nothing of it, and a worker that is started along with the producer has registered by then. While
 * the registry is empty nothing is logged: a producer that is tried out before its first worker is written is no mistake.
 */
import type { Log } from '../core/log.ts'
import { Alarm, monotonicMs } from '../core/timer.ts'
import type { Lane } from '../db/lane.ts'
import { notHandled } from '../jobs/registry.ts'

const ASK_AFTER_MS = 5_000
const AGAIN_AFTER_MS = 60_000

/** Not in production. Not in tests either: their jobs are run by drain(), after the fact or never. */
export function warnsOfUnhandledKinds(environment = process.env.NODE_ENV): boolean {
  return environment !== 'production' && environment !== 'test'
}

export class UnhandledKinds {
  readonly #lane: Lane
  readonly #log: Log
  /** When each kind was enqueued for the first time, or asked for last. */
  readonly #seenAt = new Map<string, number>()
  readonly #toAsk = new Set<string>()
  readonly #alarm = new Alarm(() => void this.#ask())
  #stopped = false

  constructor(lane: Lane, log: Log) {
    this.#lane = lane
    this.#log = log
  }

  enqueued(kind: string): void {
    if (this.#stopped) return
    const now = monotonicMs()
    const seenAt = this.#seenAt.get(kind)
    if (seenAt !== undefined && now - seenAt < AGAIN_AFTER_MS) return
    this.#seenAt.set(kind, now)
    this.#toAsk.add(kind)
    this.#alarm.setEarlier(now + ASK_AFTER_MS)
  }

  stop(): void {
    this.#stopped = true
    this.#alarm.set(Number.POSITIVE_INFINITY)
  }

  async #ask(): Promise<void> {
    const kinds = [...this.#toAsk]
    this.#toAsk.clear()
    try {
      for (const kind of await notHandled(this.#lane, kinds)) {
        const name = JSON.stringify(kind)
        const message =
          `no live worker handles the kind ${name}, so its jobs wait; start a worker whose handlers include it, ` +
          'or compare its name with the kinds in leasehold.workers'
        if (!this.#stopped) this.#log({ level: 'warn', message, kind })
      }
    } catch {
      // A producer's role may not read the registry, and an outage is reported by the calls of the user.
      this.stop()
    }
  }
}
