/**
 * What a worker sends to others while claims come back full: at the beginning that there is more than it can take, for those that
 * were not woken; and after a while that wake-ups are useless, for those that enqueue.
 */
import { monotonicMs } from '../core/timer.ts'
import type { Lane } from '../db/lane.ts'
import { callForHelp, clearBusy, markBusy } from '../jobs/wake.ts'

/** Full claims for this long mean that wake-ups are useless. */
const BUSY_AFTER_MS = 500
const BUSY_FOR_MS = 5_000
/** A full claim of fewer proves nothing. */
const FULL_FROM = 2
const CALL_EVERY_MS = 250
const QUEUES_OF_A_CALL = 8

export class Burst {
  readonly #lane: Lane
  readonly #queues: readonly string[]
  #since: number | undefined
  #busyUntil = Number.NEGATIVE_INFINITY
  #calledAt = Number.NEGATIVE_INFINITY

  /** `queues`: all that this worker serves. */
  constructor(lane: Lane, queues: readonly string[]) {
    this.#lane = lane
    this.#queues = queues
  }

  get isOn(): boolean {
    return this.#since !== undefined
  }

  /** Producers wake no worker, because this worker asked for that. */
  get saidBusy(): boolean {
    return this.#busyUntil > monotonicMs()
  }

  /** A claim of so many jobs came back full, from these queues. */
  async goesOn(full: { readonly queues: readonly string[]; readonly limit: number }, isAlone: boolean): Promise<void> {
    if (!this.isOn && !isAlone && full.limit >= FULL_FROM && full.queues.length > 0)
      await this.#callForHelp(full.queues)
    const now = monotonicMs()
    this.#since ??= now
    if (now - this.#since < BUSY_AFTER_MS || this.#busyUntil - now > BUSY_FOR_MS / 5) return
    if (full.queues.length === 0) return
    this.#busyUntil = now + BUSY_FOR_MS
    await markBusy(this.#lane, full.queues, BUSY_FOR_MS)
  }

  isOver(): void {
    this.#since = undefined
  }

  async clearBusy(): Promise<void> {
    this.#busyUntil = Number.NEGATIVE_INFINITY
    await clearBusy(this.#lane, this.#queues)
  }

  async #callForHelp(queues: readonly string[]): Promise<void> {
    if (monotonicMs() - this.#calledAt < CALL_EVERY_MS) return
    this.#calledAt = monotonicMs()
    await callForHelp(this.#lane, queues.slice(0, QUEUES_OF_A_CALL))
  }
}
