/**
 * The requests of JetStream that are used here. They are JSON over NATS' own requests; the package for JetStream is not needed, and
 * has no pull that returns at once, nor an acknowledgement by its receipt.
 */
import type { Msg, NatsClient, NatsConnection } from './client.ts'

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

/** A subject for replies, below the connection's `inboxPrefix`: an account may be allowed to subscribe there alone. */
export function newInbox({ createInbox }: NatsClient, connection: NatsConnection): string {
  const { options } = connection as { readonly options?: { readonly inboxPrefix?: string } }
  return createInbox(options?.inboxPrefix)
}

/** Throws what JetStream has refused, and for what is no reply of its. */
export function answerOf<Answer>(what: string, msg: Msg): Answer {
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
