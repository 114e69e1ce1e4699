/**
 * One durable consumer of a JetStream stream, and the requests that are sent about it.
 *
 * A message is ours for `ack_wait` from its delivery, and a sign of progress (+WPI) starts that anew. JetStream answers these and
 * acknowledgements, and refuses none: an old receipt acknowledges the message, too. So a receipt is not used any more once its
 * time may be over (consumer/visibility.ts), and a message is acknowledged only when its commit is known.
 */
import type { Broker, Hiding } from '../consumer/broker.ts'
import type { Delivery, HeldMessage } from '../consumer/held.ts'
import type { Pollable } from '../consumer/receiver.ts'
import { describeError } from '../core/error-description.ts'
import { DeadlineError, InvalidOptionError } from '../core/errors.ts'
import { withDeadline } from '../core/timer.ts'
import type { Refusal } from '../runtime/batcher.ts'
import { type Msg, type NatsConnection, natsClient } from './client.ts'
import { type ConsumerConfig, makeReady } from './durable.ts'
import { JetStreamError, newInbox } from './jetstream.ts'
import { MSG_ID, type NatsDelivery, toDelivery } from './message.ts'
import { storeAll } from './store.ts'

/** How long a pull waits for its first message. */
export const WAIT_MS = 20_000
/** A reply that takes longer counts as lost. */
const ANSWER_MS = 5_000
const BATCH = 100
const NS_PER_MS = 1_000_000
const REASON = 'Leasehold-Reason'

export interface NatsQueueOptions extends ConsumerConfig {
  readonly deadLetterSubject: string | undefined
}

/** Spelt as in JetStream. */
interface PullRequest {
  readonly batch: number
  readonly no_wait?: boolean
  /** In nanoseconds. */
  readonly expires?: number
}

export class NatsQueue implements Broker, Pollable {
  readonly name = 'NATS'
  readonly batch = BATCH
  readonly waitMs = WAIT_MS
  readonly answerMs = ANSWER_MS
  readonly deadLetters: string | undefined
  readonly deadLettersOption = 'deadLetterSubject'
  readonly #connection: NatsConnection
  readonly #options: NatsQueueOptions
  readonly #pullSubject: string
  #ready: Promise<void> | undefined
  /** Ends each pull that waits. */
  readonly #waiting = new Set<() => void>()
  #isWatching = false

  constructor(connection: NatsConnection, options: NatsQueueOptions) {
    this.#connection = connection
    this.#options = options
    this.deadLetters = options.deadLetterSubject
    this.#pullSubject = `$JS.API.CONSUMER.MSG.NEXT.${options.stream}.${options.consumer}`
  }

  /** Takes what is there at once, and otherwise waits for one message: a pull for more would wait for all of them. */
  async receive(most: number, _visibilityMs: number, signal: AbortSignal): Promise<Delivery[]> {
    this.#ready ??= makeReady(this.#connection, this.#options, ANSWER_MS).catch((error) => {
      this.#ready = undefined
      throw error
    })
    await this.#ready
    this.#watch()
    const there = await this.#pull({ batch: most, no_wait: true }, ANSWER_MS, signal)
    if (there.length > 0 || signal.aborted) return there
    return this.#pull({ batch: 1, expires: WAIT_MS * NS_PER_MS }, WAIT_MS + ANSWER_MS, signal)
  }

  /** The subscription ends with the pull: JetStream drops a waiting pull whose subject has no subscriber. */
  async #pull(request: PullRequest, withinMs: number, signal: AbortSignal): Promise<NatsDelivery[]> {
    const received: NatsDelivery[] = []
    const connection = this.#connection
    const reply = newInbox(await natsClient(), connection)
    let subscription: { unsubscribe(): void } | undefined
    let onAbort = () => {}
    const done = new Promise<void>((resolve, reject) => {
      onAbort = resolve
      const callback = (error: unknown, msg: Msg) => {
        if (error) return reject(error)
        const delivery = toDelivery(msg)
        if (delivery === undefined) return ended(msg, resolve, reject)
        received.push(delivery)
        if (received.length === request.batch) resolve()
      }
      subscription = connection.subscribe(reply, { callback })
      signal.addEventListener('abort', onAbort)
      this.#waiting.add(onAbort)
      connection.publish(this.#pullSubject, JSON.stringify(request), { reply })
    })
    try {
      await withDeadline(done, withinMs, () => new DeadlineError('A pull', withinMs))
    } catch (error) {
      if (received.length === 0) throw error // Otherwise they are ours, and the next pull shows what is wrong.
    } finally {
      signal.removeEventListener('abort', onAbort)
      this.#waiting.delete(onAbort)
      subscription?.unsubscribe()
    }
    return received
  }

  /** A server forgets the pulls of a connection that is lost. Without this they would wait to their end, and receive nothing. */
  #watch(): void {
    if (this.#isWatching || typeof this.#connection.status !== 'function') return
    this.#isWatching = true
    const watching = async () => {
      for await (const { type } of this.#connection.status()) {
        if (type === 'disconnect') for (const end of this.#waiting) end()
      }
    }
    watching().catch(() => {}) // The connection is closed for good, which isOver() reports.
  }

  isTransient(error: unknown): boolean {
    if (error instanceof InvalidOptionError) return false
    return !(error instanceof JetStreamError) || error.status >= 500 || error.status === 408 || error.status === 429
  }

  refusalOf(error: unknown): Error {
    if (error instanceof InvalidOptionError) return error
    const { name, message } = describeError(error)
    if (this.isOver()) return new InvalidOptionError('NatsConsumer.connection', 'it is closed', { cause: error })
    return new InvalidOptionError('NatsConsumer.stream', `NATS returned ${name}: ${message}`, { cause: error })
  }

  isOver(): boolean {
    return this.#connection.isClosed()
  }

  acknowledge(receipts: readonly string[]): Promise<Refusal[]> {
    return this.#sendAll(receipts, () => '+ACK', ANSWER_MS)
  }

  extend(entries: readonly Hiding[], withinMs: number, signal: AbortSignal): Promise<Refusal[]> {
    const receipts = entries.map(({ receipt }) => receipt)
    return this.#sendAll(receipts, () => '+WPI', withinMs, signal)
  }

  release(entries: readonly Hiding[]): Promise<Refusal[]> {
    const receipts = entries.map(({ receipt }) => receipt)
    const delayed = (index: number) => `-NAK ${JSON.stringify({ delay: entries[index]!.seconds * 1_000 * NS_PER_MS })}`
    return this.#sendAll(receipts, delayed, ANSWER_MS)
  }

  /** Each is answered on its own. Throws if none was answered. */
  async #sendAll(
    receipts: readonly string[],
    bodyOf: (index: number) => string,
    timeout: number,
    signal?: AbortSignal,
  ): Promise<Refusal[]> {
    const refused: Refusal[] = []
    let problem: unknown
    const send = async (receipt: string, index: number) => {
      try {
        signal?.throwIfAborted()
        await this.#connection.request(receipt, bodyOf(index), { timeout: Math.max(1, Math.round(timeout)) })
      } catch (error) {
        problem = error
        refused.push({ index, code: describeError(error).name, forGood: false })
      }
    }
    await Promise.all(receipts.map(send))
    if (refused.length > 0 && refused.length === receipts.length) throw problem
    return refused
  }

  /** ack_wait is the same for every extension. */
  secondsFor(_held: HeldMessage, _now: number, wantedMs: number): number {
    return Math.ceil(wantedMs / 1_000)
  }

  /** Under an id of its own: a second try after a lost reply stores no second dead letter. */
  async bury({ delivery }: HeldMessage, reason: string): Promise<void> {
    const { headers: ofMessage, data, id } = delivery as NatsDelivery
    const client = await natsClient()
    const headers = client.headers()
    for (const [name, values] of ofMessage ?? []) for (const value of values) headers.append(name, value)
    headers.set(REASON, reason)
    headers.set(MSG_ID, `dead ${this.#options.consumer} ${id}`)
    const message = { subject: this.#options.deadLetterSubject!, data, headers }
    const [stored] = await storeAll(client, this.#connection, [message], ANSWER_MS)
    if (stored instanceof Error) throw stored
  }

  isAboutOneEntry(): boolean {
    return false
  }

  mayHaveBeenDone(): boolean {
    return true
  }
}

/** A pull ends with a status: 404 and 408 mean no more messages, 409 that the pull was given up, 503 that no server answers. */
function ended(msg: Msg, resolve: () => void, reject: (error: unknown) => void): void {
  const { code = 400, description = 'an unexpected reply' } = msg.headers ?? {}
  const isEmpty = code === 404 || code === 408
  // 409: the leader has changed, or too many messages are held: neither is a refusal of this consumer.
  if (isEmpty) resolve()
  else reject(new JetStreamError('A pull', { code: code === 409 ? 503 : code, description }))
}
