/**
 * Publishes messages to JetStream, and awaits its acknowledgements.
 *
 * One subscription and one timer serve a batch. A request of the client's has a timer of its own and records two stack traces, which
 * takes longer than the rest of it (decisions/0037).
 */
import { Alarm, monotonicMs } from '../core/timer.ts'
import type { Msg, MsgHdrs, NatsClient, NatsConnection } from './client.ts'
import { answerOf, JetStreamError, newInbox } from './jetstream.ts'

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

/** No stream, and nothing else, has the subject. */
export class NoRespondersError extends Error {
  override readonly name = 'NoRespondersError'
}

/** The status of a reply that the server itself sends. */
const NO_RESPONDERS = 503

/**
 * Publishes the messages in their order, and resolves when JetStream has answered for each of them, the time is over, or the signal
 * aborts. Never rejects: what was not stored, or perhaps not, is an error.
 */
export function storeAll(
  client: NatsClient,
  connection: NatsConnection,
  messages: readonly NewMessage[],
  timeoutMs: number,
  signal?: AbortSignal,
): Promise<(Stored | Error)[]> {
  if (messages.length === 0) return Promise.resolve([])
  return new Promise<(Stored | Error)[]>((resolve) => {
    const inbox = newInbox(client, connection)
    const answers: (Stored | Error | undefined)[] = new Array(messages.length).fill(undefined)
    let open = messages.length
    const note = (place: number, answer: Stored | Error) => {
      if (open === 0 || answers[place] !== undefined) return
      answers[place] = answer
      if (--open === 0) end()
    }
    /** Those without an answer have this one. */
    const giveUp = (error: Error) => {
      for (const place of answers.keys()) note(place, error)
    }
    const onAbort = () => giveUp(new Error('the replies are not waited for any more'))
    const end = () => {
      late.set(Number.POSITIVE_INFINITY)
      signal?.removeEventListener('abort', onAbort)
      ignoreErrors()
      replies.unsubscribe()
      resolve(answers as (Stored | Error)[])
    }
    const late = new Alarm(() => giveUp(new Error(`no reply within ${timeoutMs} ms`)), { keepsAlive: true })
    const replies = connection.subscribe(`${inbox}.*`, {
      callback: (error, msg) => {
        if (error !== null) return giveUp(error)
        const place = Number(msg.subject.slice(inbox.length + 1))
        const message = messages[place]
        if (message !== undefined) note(place, receiptOf(message.subject, msg))
      },
    })
    const ignoreErrors = onError(connection, (error) => {
      for (const [place, { subject }] of messages.entries()) if (isDenied(subject, error)) note(place, error)
    })
    void replies.closed.then(() => giveUp(new Error('the connection is closed')))
    signal?.addEventListener('abort', onAbort)
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

/** The server reports a message that it does not take for want of a permission to the connection, and not as a reply. */
function isDenied(subject: string, error: Error): boolean {
  const denied = error as { readonly operation?: unknown; readonly subject?: unknown }
  return denied.operation === 'publish' && denied.subject === subject
}

type OnError = (error: Error) => void

const listenersOf = new WeakMap<NatsConnection, Set<OnError>>()

/** Errors that the server reports to the connection, until the returned function is called. One look at its statuses serves all. */
function onError(connection: NatsConnection, listener: OnError): () => void {
  const listeners = listenersOf.get(connection) ?? watch(connection)
  listeners.add(listener)
  return () => listeners.delete(listener)
}

function watch(connection: NatsConnection): Set<OnError> {
  const listeners = new Set<OnError>()
  listenersOf.set(connection, listeners)
  const watching = async () => {
    for await (const status of connection.status()) {
      if (status.type === 'error') for (const listener of [...listeners]) listener(status.error)
    }
  }
  watching().catch(() => {}) // The connection is closed for good, and with it every subscription.
  return listeners
}
