/**
 * What the relay needs of a broker, and all that it knows of one. Each transport has its own file, and loads its client only when
 * it is made.
 *
 * The relay calls send() with a batch, and records the result of each event in the database after the promise has settled. If the
 * process dies in between, or a reply is lost, the event is sent again with the same id. So send() may be called with an event that
 * the broker already has, and the receiver drops the copy by its id.
 *
 * Rules for a transport:
 *
 * - It returns `acknowledged` only when the broker has confirmed that it stored the event, in the sense of `acknowledgement`. Never
 *   because bytes have left a socket.
 * - When it does not know (a timeout, a lost connection), it returns `refused_for_now`, or throws.
 * - It sends each event of a batch once. It need not retry: the relay does, with backoff, over restarts and by other processes.
 * - It sends the events of one key in the order of the batch, if a batch has several.
 * - It writes no credentials into a reason, an error or a log line. Reasons are stored and shown.
 */

/** An event on its way out: the attributes of CloudEvents 1.0 by their own names, in camel case, and the stored bytes. */
export interface OutgoingEvent {
  /** A random UUID, the same whenever this event is sent: what receivers and brokers deduplicate by. */
  readonly id: string
  readonly source: string
  readonly type: string
  readonly subject: string | undefined
  /** RFC 3339, in UTC. */
  readonly time: string
  readonly dataContentType: string | undefined
  readonly dataSchema: string | undefined
  /** Extension attributes. Names are lower-case letters and digits. */
  readonly extensions: Readonly<Record<string, string | number | boolean>>
  /** What its order is kept by; the event's id if it was published without a key. CloudEvents: the extension `partitionkey`. */
  readonly key: string
  /** The bytes as they were published. Undefined: the event has no data. */
  readonly data: Uint8Array | undefined
  /** 1 for the first time. From 2 on the broker may already have it. */
  readonly attempt: number
}

/** What became of one event of a batch. */
export type SendResult =
  /** The broker has it, in the sense of `acknowledgement`. */
  | { readonly outcome: 'acknowledged' }
  /**
   * The broker does not have it, or it is not known. It is sent again: after `retryAfterMs`, or after the destination's backoff. It
   * spends an attempt, and the event becomes a dead letter after the destination's `maxAttempts`.
   */
  | { readonly outcome: 'refused_for_now'; readonly reason: string; readonly retryAfterMs?: number }
  /** Sending it again is no use, such as an event that is too large. It becomes a dead letter now, with this reason. */
  | { readonly outcome: 'refused_for_good'; readonly reason: string }

export interface TransportLimits {
  /** Events in one call of send() at most. */
  readonly batchEvents: number
  /** The sum of sizeOf() in one call at most. */
  readonly batchBytes: number
  /** sizeOf() of one event at most. The relay refuses a larger one for good, and send() never sees it. */
  readonly eventBytes: number
}

export interface Transport {
  /** Of the technology, such as `sqs`. A destination names it, and a relay refuses to serve that destination with another. */
  readonly name: string
  readonly limits: TransportLimits
  /** What an acknowledgement means, in one sentence for the documentation. */
  readonly acknowledgement: string
  /** `key`: a receiver gets the events of a key in the order in which they were acknowledged. */
  readonly ordering: 'none' | 'key'
  /** For how long the broker itself drops a second copy of an event, by its id. 0: it delivers both. */
  readonly dedupeWindowMs: number
  /**
   * Whether a batch may have several events of a key, in their order. Then send() begins none of them before the one before it was
   * acknowledged, and sends none of that key after a refusal. Default: false, and a batch of the relay has one event of each key.
   */
  readonly takesRuns?: boolean
  /** How many bytes the event takes in a request. */
  sizeOf(event: OutgoingEvent): number
  /**
   * Sends these events, and resolves with one result for each, in their order, when the broker has answered for all of them.
   *
   * Throws `DestinationUnavailable` if the broker cannot be reached or refuses everything: then no attempt is spent, and the whole
   * destination backs off. With any other error the relay sends the events of the batch again, one by one: the event
   * that makes the transport throw fails an attempt, and the others go on.
   *
   * The signal aborts when the results will not count any more: the process stops, or all leases are lost. Calls may overlap, with
   * different keys.
   */
  send(events: readonly OutgoingEvent[], signal: AbortSignal): Promise<readonly SendResult[]>
  /** Ends its connections, unless they are the user's. Called once, when no call of send() is under way. */
  close(): Promise<void>
}

/** The broker cannot be reached, or refuses everything for now. Its events wait, and none of them spends an attempt. */
export class DestinationUnavailable extends Error {
  override readonly name = 'DestinationUnavailable'
}
