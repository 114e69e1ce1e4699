/**
 * Asks for messages, never for more than can be started at once. One long poll is open while the queue is quiet; when it
 * answers in full there are more, and another one is opened beside it, as long as there is room for ten.
 */
import { setMaxListeners } from 'node:events'
import type { Message } from '@aws-sdk/client-sqs'
import { backoffMs } from '../core/backoff.ts'
import { monotonicMs, sleep } from '../core/timer.ts'
import { BatchDelay } from '../runtime/batch-delay.ts'
import { isTransient } from './answer.ts'
import type { SqsQueue } from './queue.ts'
import { BATCH } from './request.ts'

const SIDE_BY_SIDE = 16
const BACKOFF = { firstMs: 200, maxMs: 20_000 }
/** SQS counts from when it has the request. */
const ON_THE_WAY_MS = 1_000
/** How long a message that was taken to find out about the database may keep others from being taken. */
const PROBE_MS = 10_000

export interface ReceiverParts {
  readonly queue: SqsQueue
  readonly waitS: number
  readonly visibilityS: number
  /** How many could be started now. */
  readonly room: () => number
  /** Whether there may be more room any moment. */
  readonly isMoreToCome: () => boolean
  /** Whether messages that come with another one would have to be handed back. */
  readonly oneAtATime: () => boolean
  /** Resolves when they take up room. */
  readonly onReceived: (messages: readonly Message[], sentAt: number) => Promise<void>
  readonly onAnswered: () => void
  readonly onProblem: (error: unknown) => void
  /** The first thing that SQS says is no: there is no such queue, or no right to it. */
  readonly onRefused: (error: unknown) => void
}

export class Receiver {
  readonly #parts: ReceiverParts
  readonly #gathering: BatchDelay
  readonly #stop = new AbortController()
  readonly #open = new Set<Promise<void>>()
  /** Asked for and not yet answered. */
  #asked = 0
  /** When those that may bring several messages are answered at the latest. */
  readonly #severalBy = new Set<{ readonly at: number }>()
  #wanted = 1
  #isWelcome = false
  #failures = 0
  #outages = 0
  #resting: Promise<void> | undefined
  /** A message was taken to find out about the database, and has not found out. */
  #probe: AbortController | undefined

  constructor(parts: ReceiverParts) {
    this.#parts = parts
    this.#gathering = new BatchDelay(
      () => this.#start(),
      () => this.#room() > 0 && this.#room() < this.#most() && parts.isMoreToCome(),
    )
    setMaxListeners(0, this.#stop.signal) // One for each poll, and Node would warn of eleven.
  }

  /** There may be room for more. */
  more(): void {
    if (!this.#stop.signal.aborted) this.#gathering.nudge()
  }

  /**
   * Nothing can be handled while the database is away: messages would only use up their deliveries. So one is taken, and the
   * next when that one has ended. undefined: it has found out nothing.
   */
  databaseIs(there: boolean | undefined): void {
    this.#probe?.abort()
    if (there) this.#outages = 0
    if (there !== false || this.#resting !== undefined) return
    this.#outages++
    this.#rest()
  }

  /** For how long some receive may still bring several messages at once. */
  severalForMs(): number {
    const last = Math.max(...[...this.#severalBy].map(({ at }) => at), 0)
    return Math.max(0, last - monotonicMs())
  }

  /** Hangs up. Resolves when no answer can come any more. */
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
    return this.#outages > 0 || this.#parts.oneAtATime() ? 1 : BATCH
  }

  async #receive(most: number): Promise<void> {
    const { queue, waitS, visibilityS, onReceived, onAnswered, onProblem, onRefused } = this.#parts
    this.#asked += most
    const sentAt = monotonicMs()
    const several = { at: sentAt + waitS * 1_000 + ON_THE_WAY_MS }
    if (most > 1) this.#severalBy.add(several)
    try {
      const messages = await queue
        .receive(most, waitS, visibilityS, this.#stop.signal)
        .finally(() => this.#severalBy.delete(several))
      this.#isWelcome = true
      this.#failures = 0
      onAnswered()
      // AWS may answer with fewer than there are, but seldom with none.
      if (messages.length === most) this.#wanted = Math.min(this.#wanted + 1, SIDE_BY_SIDE)
      else if (messages.length === 0) this.#wanted = 1
      else if (messages.length < most / 2) this.#wanted = Math.max(this.#wanted - 1, 1)
      if (messages.length > 0 && this.#outages > 0) this.#awaitProbe()
      if (messages.length > 0) await onReceived(messages, sentAt)
    } catch (error) {
      if (this.#stop.signal.aborted) return
      if (this.#resting === undefined) this.#failures++ // Those that fail together are one failure.
      if (this.#isWelcome || isTransient(error)) onProblem(error)
      else onRefused(error)
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
