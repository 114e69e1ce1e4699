import { safeText } from '../core/safe-text.ts'
import type { KeptLease } from '../runtime/lease-keeper.ts'

/** Ids are logged as a word only, because a body may call anything an id. */
const ROW_ID_CHARS = 200

/** A message as a handler sees it. */
export interface Message<Body = unknown, Attributes = AnyAttributes> {
  /** The same at each delivery. A message that its producer sent twice has two. */
  readonly id: string
  readonly body: Body
  /** The body as it was received. */
  readonly text: string
  /** Its bytes, if the broker delivers bytes. */
  readonly data?: Uint8Array | undefined
  readonly attributes: Attributes
  readonly groupId: string | undefined
  /** Number of deliveries so far, this one included; some brokers count roughly. */
  readonly receiveCount: number
  /** Aborted when the visibility expires, because another consumer may then receive it, and when the consumer stops. */
  readonly signal: AbortSignal
  /** Aborted only when the consumer stops and its grace is over. */
  readonly stopping: AbortSignal
  /** Set it to the row's id: logs and events then carry it. */
  rowId: string | undefined
}

/** Each broker declares what an attribute is. */
// biome-ignore lint/suspicious/noExplicitAny: a handler of any broker's messages fits every helper
export type AnyAttributes = Readonly<Record<string, any>>

/** One delivery of a message, as the broker gave it. */
export interface Delivery {
  readonly id: string
  /** Names this delivery to the broker. */
  readonly receipt: string
  readonly text: string
  readonly data?: Uint8Array | undefined
  readonly attributes: AnyAttributes
  readonly groupId: string | undefined
  readonly receiveCount: number
  readonly trace: string | undefined
}

/** Created on demand: an AbortSignal costs microseconds, and most handlers use none. */
class LazySignal {
  #controller: AbortController | undefined
  #reason: Error | undefined

  get isAborted(): boolean {
    return this.#reason !== undefined
  }

  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController()
      if (this.#reason !== undefined) this.#controller.abort(this.#reason)
    }
    return this.#controller.signal
  }

  abort(reason: Error): void {
    this.#reason ??= reason
    this.#controller?.abort(this.#reason)
  }
}

/** A received message that has not ended yet. */
export class HeldMessage implements KeptLease {
  readonly delivery: Delivery
  /** When the receive was sent. */
  readonly receivedAt: number
  /** The broker hides it at least until then. */
  grantedUntil: number
  deadline = 0
  /** When its handler was called, while it runs. */
  startedAt: number | undefined
  /** It may be visible by now, or was returned: the receipt is no longer used. */
  isGone = false
  /** Its delete is in flight. */
  isEnding = false
  /** An extension in flight. Never rejects. */
  asking: Promise<unknown> | undefined
  rowId: string | undefined
  readonly #dropped = new LazySignal()
  readonly #stopping = new LazySignal()

  /** `sentAt`: when it was asked for. */
  constructor(delivery: Delivery, sentAt: number, visibilityMs: number) {
    this.delivery = delivery
    this.receivedAt = sentAt
    this.grantedUntil = sentAt + visibilityMs
  }

  get isStopped(): boolean {
    return this.#stopping.isAborted
  }

  expire(reason: Error): void {
    this.isGone = true
    this.#dropped.abort(reason)
  }

  stop(reason: Error): void {
    this.#stopping.abort(reason)
    this.#dropped.abort(reason)
  }

  get dropped(): AbortSignal {
    return this.#dropped.signal
  }

  get stopping(): AbortSignal {
    return this.#stopping.signal
  }
}

/** The handler's view, with the parsed body. */
export class HandedMessage<Body> implements Message<Body> {
  readonly id: string
  readonly body: Body
  readonly text: string
  readonly data: Uint8Array | undefined
  readonly attributes: AnyAttributes
  readonly groupId: string | undefined
  readonly receiveCount: number
  readonly #held: HeldMessage

  constructor(held: HeldMessage, body: Body) {
    const { id, text, data, attributes, groupId, receiveCount } = held.delivery
    this.id = id
    this.body = body
    this.text = text
    this.data = data
    this.attributes = attributes
    this.groupId = groupId
    this.receiveCount = receiveCount
    this.#held = held
  }

  get signal(): AbortSignal {
    return this.#held.dropped
  }

  get stopping(): AbortSignal {
    return this.#held.stopping
  }

  get rowId(): string | undefined {
    return this.#held.rowId
  }

  set rowId(rowId: string | undefined) {
    this.#held.rowId = rowId === undefined ? undefined : asOneWord(rowId)
  }
}

function asOneWord(rowId: unknown): string {
  return safeText(rowId, ROW_ID_CHARS).replaceAll(/[\p{Cc}\u2028\u2029]+/gu, ' ')
}
