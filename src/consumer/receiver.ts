/**
 * Receives messages by long polls, never more than can be started at once. One poll is open while the queue is quiet; after a full
 * reply there are more, and another poll is opened beside it, as long as there is room for a full batch.
 */
import { setMaxListeners } from 'node:events'
import { backoffMs } from '../core/backoff.ts'
import { monotonicMs, sleep } from '../core/timer.ts'
import { BatchDelay } from '../runtime/batch-delay.ts'
import type { Intake, IntakeParts } from './broker.ts'
import { type Delivery, HeldMessage } from './held.ts'

const SIDE_BY_SIDE = 16
const BACKOFF = { firstMs: 200, maxMs: 20_000 }
/** A broker counts from when it has the request. */
const ON_THE_WAY_MS = 1_000
/** How long a message that probes the database may keep others from being received. */
const PROBE_MS = 10_000

/** A queue that is polled. */
export interface Pollable {
  /** Messages of one poll at most. */
  readonly batch: number
  /** How long a poll waits for the first one. */
  readonly waitMs: number
  /** Waits for messages, and hides them from other consumers for so long. Closes the poll when the signal aborts. */
  receive(most: number, visibilityMs: number, signal: AbortSignal): Promise<Delivery[]>
  /** Not a refusal: the broker was unreachable, failing or busy. */
  isTransient(error: unknown): boolean
  /** What run() rejects with when the first reply is a refusal. */
  refusalOf(error: unknown): Error
  /** The connection is closed for good: run() rejects. Default: it never is. */
  isOver?(): boolean
}

export interface ReceiverParts extends IntakeParts {
  readonly queue: Pollable
  readonly visibilityMs: number
}

export class Receiver implements Intake {
  readonly #parts: ReceiverParts
  readonly #gathering: BatchDelay
  readonly #stop = new AbortController()
  readonly #open = new Set<Promise<void>>()
  /** Requested and not yet received. */
  #asked = 0
  /** Latest replies of the open receives that may bring several messages. */
  readonly #severalBy = new Set<{ readonly at: number }>()
  #wanted = 1
  #isWelcome = false
  #failures = 0
  #outages = 0
  #resting: Promise<void> | undefined
  /** A message was received to probe the database, and the result is not known. */
  #probe: AbortController | undefined

  constructor(parts: ReceiverParts) {
    this.#parts = parts
    this.#gathering = new BatchDelay(
      () => this.#start(),
      () => this.#room() > 0 && this.#room() < this.#most() && parts.isMoreToCome(),
    )
    setMaxListeners(0, this.#stop.signal) // One per poll; Node would warn at eleven.
  }

  /** There may be room for more. */
  more(): void {
    if (!this.#stop.signal.aborted) this.#gathering.nudge()
  }

  /**
   * While the database is away nothing can be handled, and messages would only use up their deliveries. So one is received,
   * and the next when it has ended. undefined: the message did not query the database.
   */
  databaseIs(there: boolean | undefined): void {
    this.#probe?.abort()
    if (there) this.#outages = 0
    if (there !== false || this.#resting !== undefined) return
    this.#outages++
    this.#rest()
  }

  /** For how long an open receive may still bring several messages at once. */
  severalForMs(): number {
    const last = Math.max(...[...this.#severalBy].map(({ at }) => at), 0)
    return Math.max(0, last - monotonicMs())
  }

  /** Closes the open receives. Resolves when no reply can arrive any more. */
  async stop(): Promise<void> {
    this.#stop.abort()
    await Promise.all([...this.#open, this.#resting])
  }

  #start(): void {
    while (!this.#stop.signal.aborted && this.#resting === undefined && this.#probe === undefined) {
      const isTrouble = this.#failures > 0 || this.#outages > 0
      const room = Math.min(this.#room(), this.#most())
      const many = this.#open.size === 0 || (room === this.#most() && this.#open.size < this.#wanted)
      if (room <= 0 || !many || (isTrouble && this.#open.size > 0)) return
      const asking: Promise<void> = this.#receive(room).finally(() => {
        this.#open.delete(asking)
        this.more()
      })
      this.#open.add(asking)
    }
  }

  #room(): number {
    return this.#parts.room() - this.#asked
  }

  #most(): number {
    return this.#outages > 0 || this.#parts.oneAtATime() ? 1 : this.#parts.queue.batch
  }

  async #receive(most: number): Promise<void> {
    const { queue, visibilityMs, onReceived, onAnswered, onProblem, onRefused } = this.#parts
    this.#asked += most
    const sentAt = monotonicMs()
    const several = { at: sentAt + queue.waitMs + ON_THE_WAY_MS }
    if (most > 1) this.#severalBy.add(several)
    try {
      const messages = await queue
        .receive(most, visibilityMs, this.#stop.signal)
        .finally(() => this.#severalBy.delete(several))
      this.#isWelcome = true
      this.#failures = 0
      onAnswered()
      // A broker may return fewer messages than there are, but seldom none.
      if (messages.length === most) this.#wanted = Math.min(this.#wanted + 1, SIDE_BY_SIDE)
      else if (messages.length === 0) this.#wanted = 1
      else if (messages.length < most / 2) this.#wanted = Math.max(this.#wanted - 1, 1)
      if (messages.length > 0 && this.#outages > 0) this.#awaitProbe()
      if (messages.length > 0) {
        await onReceived(messages.map((message) => new HeldMessage(message, sentAt, visibilityMs)))
      }
    } catch (error) {
      if (this.#stop.signal.aborted) return
      if (this.#resting === undefined) this.#failures++ // Concurrent failures count as one.
      const isOver = queue.isOver?.() ?? false
      if (!isOver && (this.#isWelcome || queue.isTransient(error))) onProblem(error)
      else onRefused(queue.refusalOf(error))
    } finally {
      this.#asked -= most
    }
    if (this.#failures > 0) this.#rest()
  }

  #awaitProbe(): void {
    if (this.#probe !== undefined) return
    const known = new AbortController()
    this.#probe = known
    void sleep(PROBE_MS, AbortSignal.any([known.signal, this.#stop.signal])).then(() => {
      this.#probe = undefined
      this.more()
    })
  }

  #rest(): void {
    const ms = backoffMs(Math.max(this.#failures, this.#outages), BACKOFF)
    this.#resting ??= sleep(ms, this.#stop.signal).then(() => {
      this.#resting = undefined
      this.more()
    })
  }
}
