/**
 * The requests of JetStream that are used here. They are JSON over NATS' own requests; the package for JetStream is not needed, and
 * has no pull that returns at once, nor an acknowledgement by its receipt.
 */
import { Alarm, monotonicMs } from '../core/timer.ts'
import type { Msg, MsgHdrs, NatsClient, NatsConnection } from './client.ts'

/** A refusal. `status` is like that of HTTP, `code` JetStream's own number. */
export class JetStreamError extends Error {
  override readonly name = 'JetStreamError'
  readonly status: number
  readonly code: number

  constructor(what: string, { code: status, err_code: code, description }: ApiError) {
    super(`${what}: ${description} (${code ?? status})`)
    this.status = status
    this.code = code ?? 0
  }
}

interface ApiError {
  readonly code: number
  readonly err_code?: number
  readonly description: string
}

export const NO_CONSUMER = 10_014
export const NO_STREAM = 10_059

/** A request to the API of JetStream, such as `CONSUMER.INFO.orders.billing`. */
export async function askApi<Answer>(
  connection: NatsConnection,
  what: string,
  body: object | undefined,
  timeout: number,
): Promise<Answer> {
  const payload = body === undefined ? '' : JSON.stringify(body)
  return answerOf(what, await connection.request(`$JS.API.${what}`, payload, { timeout }))
}

export interface Stored {
  readonly stream: string
  readonly seq: number
  /** The stream had a message with this id within its window, and stored no second one. */
  readonly duplicate?: boolean
}

/** What is to be stored in the stream that the subject belongs to. */
export interface NewMessage {
  readonly subject: string
  readonly data: Uint8Array
  readonly headers: MsgHdrs
}

/**
 * Publishes the messages in their order, and resolves when JetStream has answered for each of them, or the time is over. Never
 * rejects: what was not stored, or perhaps not, is an error.
 *
 * One subscription and one timer serve all of them. A request of the client's has a timer of its own and records two stack traces,
 * which takes longer than the rest of it (decisions/0037).
 */
export function storeAll(
  client: NatsClient,
  connection: NatsConnection,
  messages: readonly NewMessage[],
  timeoutMs: number,
): Promise<(Stored | Error)[]> {
  const answers: (Stored | Error | undefined)[] = new Array(messages.length)
  const inbox = newInbox(client, connection)
  let open = messages.length
  return new Promise<(Stored | Error)[]>((resolve) => {
    if (open === 0) return resolve([])
    const end = (reason: string) => {
      late.set(Number.POSITIVE_INFINITY)
      replies.unsubscribe()
      const missing = new Error(reason)
      resolve(Array.from(answers, (answer) => answer ?? missing))
    }
    const note = (place: number, answer: Stored | Error) => {
      if (answers[place] !== undefined || messages[place] === undefined) return
      answers[place] = answer
      if (--open === 0) end('')
    }
    const late = new Alarm(() => end(`no reply within ${timeoutMs} ms`), { keepsAlive: true })
    const replies = connection.subscribe(`${inbox}.*`, {
      callback: (error, msg) => {
        if (error !== null) return end(error.message)
        const place = Number(msg.subject.slice(inbox.length + 1))
        note(place, receiptOf(messages[place]?.subject ?? '', msg))
      },
    })
    void replies.closed.then(() => end('the connection is closed'))
    late.set(monotonicMs() + timeoutMs)
    for (const [place, { subject, data, headers }] of messages.entries()) {
      try {
        connection.publish(subject, data, { headers, reply: `${inbox}.${place}` })
      } catch (error) {
        note(place, error as Error)
      }
    }
  }).catch((error) => messages.map(() => error)) // A connection that is closed takes no subscription.
}

/** A subject for replies, below the connection's `inboxPrefix`: an account may be allowed to subscribe there alone. */
export function newInbox({ createInbox }: NatsClient, connection: NatsConnection): string {
  const { options } = connection as { readonly options?: { readonly inboxPrefix?: string } }
  return createInbox(options?.inboxPrefix)
}

/** The server replies with this status when no stream, and nothing else, has the subject. */
const NO_RESPONDERS = 503

export class NoRespondersError extends Error {
  override readonly name = 'NoRespondersError'
}

function receiptOf(subject: string, msg: Msg): Stored | Error {
  if (msg.data.length === 0 && msg.headers?.code === NO_RESPONDERS) {
    return new NoRespondersError(`no responders: ${JSON.stringify(subject)}`)
  }
  try {
    const stored = answerOf<Stored>(subject, msg)
    if (typeof stored?.stream === 'string' && typeof stored.seq === 'number') return stored
    // A responder that is no stream has answered: the message is stored nowhere.
    return new JetStreamError(subject, { code: 400, description: 'the reply was not from a stream' })
  } catch (error) {
    return error as Error
  }
}

function answerOf<Answer>(what: string, msg: Msg): Answer {
  const answer = parsed(msg) as (Answer & { readonly error?: ApiError }) | undefined
  if (answer?.error !== undefined) throw new JetStreamError(what, answer.error)
  if (answer === undefined)
    throw new JetStreamError(what, { code: 400, description: 'the reply was not from JetStream' })
  return answer
}

function parsed(msg: Msg): unknown {
  try {
    return msg.json()
  } catch {
    return undefined
  }
}

/** What JetStream puts into the reply subject of a delivery. */
export interface Position {
  readonly stream: string
  readonly deliveries: number
  readonly sequence: number
  /** When the message was stored, in nanoseconds. */
  readonly storedAt: string
}

/** `$JS.ACK.stream.consumer.deliveries.sequence.…`, or with a domain and an account in front of the stream. */
export function positionOf(receipt: string): Position | undefined {
  const parts = receipt.split('.')
  if (parts[0] !== '$JS' || parts[1] !== 'ACK' || parts.length < 9) return undefined
  const [stream, , deliveries, sequence, , storedAt] = parts.slice(parts.length === 9 ? 2 : 4)
  return { stream: stream!, deliveries: Number(deliveries), sequence: Number(sequence), storedAt: storedAt! }
}
