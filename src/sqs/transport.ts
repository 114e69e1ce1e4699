/**
 * Sends events of the outbox to an SQS queue, each as CloudEvents JSON in the body: SQS has room for ten attributes, and its bodies are
 * text. A FIFO queue gets the event's id as deduplication id, and its key as the group.
 */
import { SendMessageBatchCommand } from '@aws-sdk/client-sqs'
import { checkInteger } from '../core/check.ts'
import { type Duration, durationMs } from '../core/duration.ts'
import { InvalidOptionError } from '../core/errors.ts'
import { checkOptions } from '../core/options.ts'
import { jsonOf } from '../outbox/cloud-event.ts'
import {
  DestinationUnavailable,
  type OutgoingEvent,
  type SendResult,
  type Transport,
  type TransportLimits,
} from '../outbox/transport.ts'
import { inRounds, reasonOf, withoutCredentials } from '../outbox/transport-parts.ts'
import type { Refusal } from '../runtime/batcher.ts'
import { maybeAboutOneEntry } from './answer.ts'
import { asSqsText, groupOf } from './entry.ts'
import { checkQueueUrl } from './queue-url.ts'
import { BATCH, inTime, isFifo, refusals, type SqsClient } from './request.ts'

/** For so long a FIFO queue drops a message whose deduplication id it knows. */
const FIFO_WINDOW_MS = 300_000

export interface SqsTransportOptions {
  /** A FIFO queue if it ends in `.fifo`. */
  readonly queueUrl: string
  /** Of a message, and of ten together. Default: 1 MiB. AWS had 256 KiB for years; other implementations may still. */
  readonly maxBytes?: number
  /** Deadline of one request. Default: 30s. */
  readonly timeout?: Duration
}

export class SqsTransport implements Transport {
  readonly name: 'sqs' | 'sqs_fifo'
  readonly limits: TransportLimits
  readonly acknowledgement = 'SQS has stored the message on several servers.'
  readonly ordering: 'none' | 'key'
  readonly dedupeWindowMs: number
  readonly #client: SqsClient
  readonly #queueUrl: string
  readonly #isFifo: boolean
  readonly #timeoutMs: number
  /** Encoded once for its size and for sending. */
  readonly #bodies = new WeakMap<OutgoingEvent, string>()

  /** The client stays yours. */
  constructor(client: SqsClient, options: SqsTransportOptions) {
    if (typeof client?.send !== 'function') throw new InvalidOptionError('client', 'it must be an SQSClient')
    checkOptions('SqsTransport', options ?? null, ['queueUrl', 'maxBytes', 'timeout'])
    this.#client = client
    this.#queueUrl = checkQueueUrl('SqsTransport.queueUrl', options.queueUrl)
    this.#isFifo = isFifo(this.#queueUrl)
    const bytes = checkInteger('SqsTransport.maxBytes', options.maxBytes ?? 1_048_576, 1_024, 2 ** 30)
    this.#timeoutMs = durationMs('SqsTransport.timeout', options.timeout ?? '30s', 1)
    this.name = this.#isFifo ? 'sqs_fifo' : 'sqs'
    this.ordering = this.#isFifo ? 'key' : 'none'
    this.dedupeWindowMs = this.#isFifo ? FIFO_WINDOW_MS : 0
    this.limits = { batchEvents: BATCH, batchBytes: bytes, eventBytes: bytes }
  }

  sizeOf(event: OutgoingEvent): number {
    return Buffer.byteLength(this.#bodyOf(event))
  }

  send(events: readonly OutgoingEvent[], signal: AbortSignal): Promise<SendResult[]> {
    const send = (round: readonly OutgoingEvent[]) => this.#sendRound(round, signal)
    return this.#isFifo ? inRounds(events, send) : send(events)
  }

  async close(): Promise<void> {}

  async #sendRound(events: readonly OutgoingEvent[], signal: AbortSignal): Promise<SendResult[]> {
    const Entries = events.map((event, index) => ({
      Id: String(index),
      MessageBody: this.#bodyOf(event),
      ...(this.#isFifo
        ? { MessageGroupId: groupOf(event.key, undefined, true), MessageDeduplicationId: event.id }
        : undefined),
    }))
    const command = new SendMessageBatchCommand({ QueueUrl: this.#queueUrl, Entries })
    const ask = (abortSignal: AbortSignal) => this.#client.send(command, { abortSignal })
    let refused: readonly Refusal[]
    try {
      refused = refusals(events.length, await inTime('SendMessageBatch', this.#timeoutMs, ask, signal))
    } catch (error) {
      const reason = reasonOf(error)
      if (!maybeAboutOneEntry(error)) throw new DestinationUnavailable(reason, { cause: error })
      if (events.length > 1) throw error // One by one, the event is found.
      return [{ outcome: 'refused_for_good', reason }]
    }
    const why = new Map(refused.map((refusal) => [refusal.index, refusal]))
    return events.map((_, index) => resultOf(why.get(index)))
  }

  #bodyOf(event: OutgoingEvent): string {
    const known = this.#bodies.get(event)
    if (known !== undefined) return known
    const body = asSqsText(jsonOf(event))
    this.#bodies.set(event, body)
    return body
  }
}

/** SQS blames the sender also for a key it may not use or a queue it may not write to; a later try may succeed. */
function resultOf(refusal: Refusal | undefined): SendResult {
  if (refusal === undefined) return { outcome: 'acknowledged' }
  const { code, message } = refusal
  const reason = withoutCredentials(message === undefined ? code : `${code}: ${message}`)
  const isForGood = refusal.forGood && maybeAboutOneEntry({ name: code })
  return { outcome: isForGood ? 'refused_for_good' : 'refused_for_now', reason }
}
