/**
 * Sends events of the outbox to JetStream in the binary mode of CloudEvents: attributes are headers, the data is the payload as it was
 * published. The event's id is `Nats-Msg-Id`, so that the stream drops a second copy within its window.
 */
import { checkInteger } from '../core/check.ts'
import { type Duration, durationMs } from '../core/duration.ts'
import { InvalidOptionError } from '../core/errors.ts'
import { checkOptions } from '../core/options.ts'
import { attributesOf } from '../outbox/cloud-event.ts'
import {
  DestinationUnavailable,
  type OutgoingEvent,
  type SendResult,
  type Transport,
  type TransportLimits,
} from '../outbox/transport.ts'
import { inRounds, reasonOf } from '../outbox/transport-parts.ts'
import { checkConnection, type NatsClient, type NatsConnection, natsClient } from './client.ts'
import { askApi, JetStreamError } from './jetstream.ts'
import { encodeHeader, MSG_ID } from './message.ts'
import { type NewMessage, NoRespondersError, type Stored, storeAll } from './store.ts'
import { isSubject } from './subject.ts'

/** The server's default for a payload with its headers. */
const MAX_PAYLOAD = 1_048_576
const BATCH_EVENTS = 500
const BATCH_BYTES = 8 * 1024 * 1024
/** Longer than the stream's max_msg_size. */
const TOO_LARGE = 10_054
/** `NATS/1.0`, and what stands between names and values. */
const HEAD_BYTES = 12
const PER_HEADER_BYTES = 4
const NO_DATA = new Uint8Array()

export interface NatsTransportOptions {
  /** The subject of a stream, or a function of the event: `(event) => `orders.${event.type}``. */
  readonly subject: string | ((event: OutgoingEvent) => string)
  /** How long a reply may take. Default: 5s. */
  readonly timeout?: Duration
  /** The stream's `duplicate_window`. Default: 2m, which is that of JetStream. */
  readonly dedupeWindow?: Duration
  /** Of an event with its headers. Default: the server's `max_payload`. */
  readonly maxBytes?: number
}

export class NatsTransport implements Transport {
  readonly name = 'nats'
  readonly limits: TransportLimits
  readonly acknowledgement = 'The stream has stored the message, on a majority of its replicas if it has several.'
  readonly ordering = 'key'
  readonly dedupeWindowMs: number
  readonly #connection: NatsConnection
  readonly #subjectOf: (event: OutgoingEvent) => string
  readonly #timeoutMs: number
  /** An event is measured by the relay and here, and then sent. */
  readonly #measured = new WeakMap<OutgoingEvent, Measured>()

  /** The connection stays yours. */
  constructor(connection: NatsConnection, options: NatsTransportOptions) {
    this.#connection = checkConnection('NatsTransport.connection', connection)
    checkOptions('NatsTransport', options ?? null, ['subject', 'timeout', 'dedupeWindow', 'maxBytes'])
    const { subject } = options
    if (typeof subject !== 'function' && !isSubject(subject)) {
      throw new InvalidOptionError('NatsTransport.subject', 'it must be a subject such as orders.paid, or a function')
    }
    this.#subjectOf = typeof subject === 'function' ? subject : () => subject
    this.#timeoutMs = durationMs('NatsTransport.timeout', options.timeout ?? '5s', 1)
    this.dedupeWindowMs = durationMs('NatsTransport.dedupeWindow', options.dedupeWindow ?? '2m')
    const most = options.maxBytes ?? connection.info?.max_payload ?? MAX_PAYLOAD
    const eventBytes = checkInteger('NatsTransport.maxBytes', most, 1_024, 2 ** 26)
    this.limits = { batchEvents: BATCH_EVENTS, batchBytes: Math.max(BATCH_BYTES, eventBytes), eventBytes }
  }

  sizeOf(event: OutgoingEvent): number {
    return this.#measure(event).bytes
  }

  async send(events: readonly OutgoingEvent[], signal: AbortSignal): Promise<SendResult[]> {
    const client = await natsClient()
    return inRounds(events, (round) => this.#sendRound(client, round, signal))
  }

  async close(): Promise<void> {}

  #measure(event: OutgoingEvent): Measured {
    let known = this.#measured.get(event)
    if (known === undefined) {
      known = measured(event)
      this.#measured.set(event, known)
    }
    return known
  }

  /** All at once: the connection keeps their order. */
  async #sendRound(client: NatsClient, events: readonly OutgoingEvent[], signal: AbortSignal): Promise<SendResult[]> {
    if (this.#connection.isClosed()) throw new DestinationUnavailable('the connection is closed')
    throwIfAborted(signal)
    const prepared = events.map((event) => this.#messageOf(client, event))
    const messages = prepared.filter((each): each is NewMessage => !('outcome' in each))
    const answers = await storeAll(client, this.#connection, messages, this.#timeoutMs, signal)
    throwIfAborted(signal)
    const isUnheard = (answer: Stored | Error) => answer instanceof Error && !(answer instanceof JetStreamError)
    if (messages.length > 0 && answers.every(isUnheard)) await this.#beThere(answers[0] as Error, messages[0]!.subject)
    let place = 0
    return prepared.map((each) => ('outcome' in each ? each : resultOf(answers[place++]!)))
  }

  /** The message of an event, or why it cannot be sent. */
  #messageOf(client: NatsClient, event: OutgoingEvent): NewMessage | SendResult {
    const { headers, bytes } = this.#measure(event)
    const { eventBytes } = this.limits
    // The server would close the connection.
    if (bytes > eventBytes) return { outcome: 'refused_for_good', reason: `larger than ${eventBytes} bytes` }
    let subject: string
    try {
      subject = this.#subjectOf(event)
    } catch (error) {
      return { outcome: 'refused_for_now', reason: reasonOf(error) }
    }
    if (!isSubject(subject)) return { outcome: 'refused_for_good', reason: 'its subject is not one of NATS' }
    // Header by header the client checks the name, and looks for it among the others.
    return { subject, data: event.data ?? NO_DATA, headers: client.MsgHdrsImpl.fromRecord(headers) }
  }

  /**
   * No reply to any of them. A subject that no stream stores has none either, and is the fault of its event. Throws if JetStream
   * itself does not answer.
   */
  async #beThere(error: Error, subject: string): Promise<void> {
    const unavailable = new DestinationUnavailable(reasonOf(error), { cause: error })
    if (!(error instanceof NoRespondersError)) throw unavailable
    const asking = askApi<{ streams?: readonly string[] | null }>
    const { streams } = await asking(this.#connection, 'STREAM.NAMES', { subject }, this.#timeoutMs).catch(() => {
      throw unavailable
    })
    if ((streams ?? []).length > 0) throw unavailable // Its leader is away.
  }
}

function resultOf(answer: Stored | Error): SendResult {
  if (!(answer instanceof Error)) return { outcome: 'acknowledged' }
  const isForGood = answer instanceof JetStreamError && answer.code === TOO_LARGE
  return { outcome: isForGood ? 'refused_for_good' : 'refused_for_now', reason: reasonOf(answer) }
}

function throwIfAborted(signal: AbortSignal): void {
  if (signal.aborted) throw new DestinationUnavailable('the relay stops', { cause: signal.reason })
}

/** The headers of an event, by their names, and what it takes with them. */
interface Measured {
  readonly headers: Record<string, string[]>
  readonly bytes: number
}

/** Printable ASCII, as the bindings of CloudEvents ask for. */
function measured(event: OutgoingEvent): Measured {
  const headers: Record<string, string[]> = {}
  let bytes = HEAD_BYTES + (event.data?.length ?? 0)
  const add = (name: string, value: string) => {
    headers[name] = [value]
    bytes += name.length + value.length + PER_HEADER_BYTES
  }
  const attributes = attributesOf(event)
  for (const name in attributes) {
    add(name === 'datacontenttype' ? 'content-type' : `ce-${name}`, encodeHeader(attributes[name]!))
  }
  add(MSG_ID, encodeHeader(event.id))
  return { headers, bytes }
}
