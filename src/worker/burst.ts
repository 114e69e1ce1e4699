/**
 * What a worker sends to others while its claims come back full: at the beginning it calls workers that were not woken; after a while it
 * asks producers to send no wake-ups. While it watches queues (watch.ts) it asks producers for the same.
 */
import { monotonicMs } from '../core/timer.ts'
import type { Lane } from '../db/lane.ts'
import { callForHelp, clearBusy, markBusy } from '../jobs/wake.ts'
import { Watch } from './watch.ts'

/** Full claims for this long mean that wake-ups are useless. */
const BUSY_AFTER_MS = 500
const BUSY_FOR_MS = 5_000
/** A full claim of fewer proves nothing. */
const FULL_FROM = 2
const CALL_EVERY_MS = 250
const QUEUES_OF_A_CALL = 8

export class Burst {
  /** Of queues whose work comes steadily. */
  readonly watch: Watch
  /** This worker is notified from now on, and has yet to join the others that are. */
  isToJoin = false
  readonly #lane: Lane
  readonly #queues: readonly string[]
  #since: number | undefined
  #busyUntil = Number.NEGATIVE_INFINITY
  #calledAt = Number.NEGATIVE_INFINITY

  /** `queues`: all that this worker serves. */
  constructor(lane: Lane, queues: readonly string[], pollMs: number, handlerMs: () => number) {
    this.watch = new Watch(lane, pollMs, handlerMs)
    this.#lane = lane
    this.#queues = queues
  }

  get isOn(): boolean {
    return this.#since !== undefined
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

  /** A claim came back short. Returns whether enqueues were silent until now because claims were full: then look once more. */
  async isOver(isAlone: boolean): Promise<boolean> {
    this.#since = undefined
    const wasBusy = await this.#clearBusy()
    if (!wasBusy) await this.watch.update(isAlone)
    return wasBusy
  }

  /**
   * Another worker, which took itself for alone, may have asked producers to send nothing. Should that not be undone, this one claims
   * before it tries again: a hint holds up no claim.
   */
  async join(claim: () => Promise<unknown>): Promise<void> {
    this.isToJoin = false
    await clearBusy(this.#lane, this.#queues).catch(async (error) => {
      this.isToJoin = true
      await claim()
      throw error
    })
  }

  /** Enqueues send NOTIFY from here on. */
  async stop(): Promise<void> {
    try {
      await this.watch.end()
    } finally {
      await this.#clearBusy()
    }
  }

  async #clearBusy(): Promise<boolean> {
    if (this.#busyUntil <= monotonicMs()) return false
    this.#busyUntil = Number.NEGATIVE_INFINITY
    await clearBusy(this.#lane, this.#queues)
    this.watch.cleared()
    return true
  }

  async #callForHelp(queues: readonly string[]): Promise<void> {
    if (monotonicMs() - this.#calledAt < CALL_EVERY_MS) return
    this.#calledAt = monotonicMs()
    await callForHelp(this.#lane, queues.slice(0, QUEUES_OF_A_CALL))
  }
}
