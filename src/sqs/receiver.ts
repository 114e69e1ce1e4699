/**
 * Receives messages, never more than can be started at once. One long poll is open while the queue is quiet; after a full
 * reply there are more, and another poll is opened beside it, as long as there is room for ten.
 */
import { setMaxListeners } from 'node:events'
import type { Intake, IntakeParts } from '../consumer/broker.ts'
import { HeldMessage } from '../consumer/held.ts'
import { backoffMs } from '../core/backoff.ts'
import { describeError } from '../core/error-description.ts'
import { InvalidOptionError } from '../core/errors.ts'
import { monotonicMs, sleep } from '../core/timer.ts'
import { BatchDelay } from '../runtime/batch-delay.ts'
import { isTransient } from './answer.ts'
import type { SqsQueue } from './queue.ts'
import { BATCH, WAIT_S } from './request.ts'

const SIDE_BY_SIDE = 16
const BACKOFF = { firstMs: 200, maxMs: 20_000 }
/** SQS counts from when it has the request. */
const ON_THE_WAY_MS = 1_000
/** How long a message that probes the database may keep others from being received. */
const PROBE_MS = 10_000

export interface ReceiverParts extends IntakeParts {
  readonly queue: SqsQueue
  readonly visibilityS: number
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
    return this.#outages > 0 || this.#parts.oneAtATime() ? 1 : BATCH
  }

  async #receive(most: number): Promise<void> {
    const { queue, visibilityS, onReceived, onAnswered, onProblem, onRefused } = this.#parts
    this.#asked += most
    const sentAt = monotonicMs()
    const several = { at: sentAt + WAIT_S * 1_000 + ON_THE_WAY_MS }
    if (most > 1) this.#severalBy.add(several)
    try {
      const messages = await queue
        .receive(most, visibilityS, this.#stop.signal)
        .finally(() => this.#severalBy.delete(several))
      this.#isWelcome = true
      this.#failures = 0
      onAnswered()
      // AWS may return fewer messages than there are, but seldom none.
      if (messages.length === most) this.#wanted = Math.min(this.#wanted + 1, SIDE_BY_SIDE)
      else if (messages.length === 0) this.#wanted = 1
      else if (messages.length < most / 2) this.#wanted = Math.max(this.#wanted - 1, 1)
      if (messages.length > 0 && this.#outages > 0) this.#awaitProbe()
      if (messages.length > 0) {
        await onReceived(messages.map((message) => new HeldMessage(message, sentAt, visibilityS * 1_000)))
      }
    } catch (error) {
      if (this.#stop.signal.aborted) return
      if (this.#resting === undefined) this.#failures++ // Concurrent failures count as one.
      if (this.#isWelcome || isTransient(error)) onProblem(error)
      else onRefused(refusalOf(error, queue.url))
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

function refusalOf(error: unknown, queueUrl: string): InvalidOptionError {
  const { name, message } = describeError(error)
  const reason = `SQS returned ${name}: ${message} (${queueUrl})`
  return new InvalidOptionError('SqsConsumer.queueUrl', reason, { cause: error })
}
