/** One SQS queue, and the four requests that a consumer sends. */

import { randomUUID } from 'node:crypto'
import {
  ChangeMessageVisibilityBatchCommand,
  DeleteMessageBatchCommand,
  type Message,
  type MessageAttributeValue,
  ReceiveMessageCommand,
  SendMessageCommand,
} from '@aws-sdk/client-sqs'
import type { Broker, Hiding } from '../consumer/broker.ts'
import type { Delivery, HeldMessage } from '../consumer/held.ts'
import type { Pollable } from '../consumer/receiver.ts'
import { describeError } from '../core/error-description.ts'
import { InvalidOptionError } from '../core/errors.ts'
import type { Refusal } from '../runtime/batcher.ts'
import { isTransient, maybeAboutOneEntry, mayHaveBeenDone } from './answer.ts'
import { sendDeadLetter } from './dead-letters.ts'
import { BATCH, inTime, isFifo, MOST_S, queueName, refusals, type SqsClient, WAIT_S } from './request.ts'

/** A reply that takes longer counts as lost. */
const ANSWER_MS = 10_000

export interface DeadLetter {
  readonly url: string
  readonly body: string
  readonly attributes: Readonly<Record<string, MessageAttributeValue>>
  readonly trace: string | undefined
  readonly messageId: string
  readonly groupId: string | undefined
}

export class SqsQueue implements Broker, Pollable {
  readonly name = 'SQS'
  readonly waitMs = WAIT_S * 1_000
  readonly batch = BATCH
  readonly answerMs = ANSWER_MS
  readonly deadLetters: string | undefined
  readonly deadLettersOption = 'deadLetterQueueUrl'
  readonly url: string
  readonly isFifo: boolean
  readonly #client: SqsClient
  readonly #deadLetterUrl: string | undefined
  /** Receives of a FIFO queue without a reply. The reply may be in flight, and its groups are blocked. */
  readonly #unheard: { readonly attempt: string; readonly most: number }[] = []

  constructor(client: SqsClient, url: string, deadLetterUrl?: string) {
    this.#client = client
    this.url = url
    this.#deadLetterUrl = deadLetterUrl
    this.deadLetters = deadLetterUrl === undefined ? undefined : queueName(deadLetterUrl)
    this.isFifo = isFifo(url)
  }

  /**
   * Waits for messages, up to 20 seconds. After a receive without a reply, it repeats that receive with the same
   * attempt id, and SQS returns the same messages, if it had returned any.
   */
  async receive(most: number, visibilityMs: number, signal: AbortSignal): Promise<Delivery[]> {
    const attempt = this.isFifo ? this.#attemptAt(most) : undefined
    const command = new ReceiveMessageCommand({
      QueueUrl: this.url,
      MaxNumberOfMessages: most,
      WaitTimeSeconds: WAIT_S,
      VisibilityTimeout: visibilityMs / 1_000,
      MessageSystemAttributeNames: ['ApproximateReceiveCount', 'MessageGroupId', 'AWSTraceHeader'],
      MessageAttributeNames: ['All'],
      ...(attempt === undefined ? {} : { ReceiveRequestAttemptId: attempt }),
    })
    const ask = (abortSignal: AbortSignal) => this.#client.send(command, { abortSignal })
    try {
      const { Messages = [] } = await inTime('receiving', this.waitMs + ANSWER_MS, ask, signal)
      return Messages.map(toDelivery)
    } catch (error) {
      if (attempt !== undefined) this.#unheard.push({ attempt, most })
      throw error
    }
  }

  /** With the same maximum: AWS does not document whether a repeat could return ten messages to a request for one. */
  #attemptAt(most: number): string {
    const index = this.#unheard.findIndex((each) => each.most === most)
    return index < 0 ? randomUUID() : this.#unheard.splice(index, 1)[0]!.attempt
  }

  extend(entries: readonly Hiding[], withinMs: number, signal: AbortSignal): Promise<Refusal[]> {
    return this.#hide(entries, withinMs, signal)
  }

  /** Hides them for so long, and nothing else. */
  release(entries: readonly Hiding[]): Promise<Refusal[]> {
    return this.#hide(entries)
  }

  async #hide(entries: readonly Hiding[], withinMs = ANSWER_MS, signal?: AbortSignal): Promise<Refusal[]> {
    const command = new ChangeMessageVisibilityBatchCommand({
      QueueUrl: this.url,
      Entries: entries.map(({ receipt, seconds }, index) => ({
        Id: String(index),
        ReceiptHandle: receipt,
        VisibilityTimeout: seconds,
      })),
    })
    const ask = (abortSignal: AbortSignal) => this.#client.send(command, { abortSignal })
    return refusals(entries.length, await inTime('changing visibility', withinMs, ask, signal))
  }

  /** Returns the refused entries. Deleting a deleted message is no error, so it can be repeated. */
  async acknowledge(receipts: readonly string[]): Promise<Refusal[]> {
    const command = new DeleteMessageBatchCommand({
      QueueUrl: this.url,
      Entries: receipts.map((receipt, index) => ({ Id: String(index), ReceiptHandle: receipt })),
    })
    const ask = (abortSignal: AbortSignal) => this.#client.send(command, { abortSignal })
    return refusals(receipts.length, await inTime('deleting', ANSWER_MS, ask))
  }

  isTransient(error: unknown): boolean {
    return isTransient(error)
  }

  refusalOf(error: unknown): InvalidOptionError {
    const { name, message } = describeError(error)
    const reason = `SQS returned ${name}: ${message} (${this.url})`
    return new InvalidOptionError('SqsConsumer.queueUrl', reason, { cause: error })
  }

  isAboutOneEntry(error: unknown): boolean {
    return maybeAboutOneEntry(error)
  }

  mayHaveBeenDone(error: unknown): boolean {
    return mayHaveBeenDone(error)
  }

  /** SQS hides a message for twelve hours in all. */
  secondsFor({ receivedAt }: HeldMessage, now: number, wantedMs: number): number {
    const left = MOST_S - Math.ceil((now - receivedAt) / 1_000) - 1
    return Math.max(0, Math.min(Math.ceil(wantedMs / 1_000), left))
  }

  async bury(held: HeldMessage, reason: string): Promise<void> {
    await sendDeadLetter(this, this.#deadLetterUrl!, held, reason)
  }

  async sendDeadLetter({ url, body, attributes, trace, messageId, groupId }: DeadLetter): Promise<void> {
    const fifo = isFifo(url) ? { MessageGroupId: groupId ?? messageId, MessageDeduplicationId: messageId } : undefined
    const command = new SendMessageCommand({
      QueueUrl: url,
      MessageBody: body,
      MessageAttributes: { ...attributes },
      ...(trace === undefined
        ? {}
        : { MessageSystemAttributes: { AWSTraceHeader: { DataType: 'String', StringValue: trace } } }),
      ...fifo,
    })
    await inTime('sending a dead letter', ANSWER_MS, (abortSignal) => this.#client.send(command, { abortSignal }))
  }
}

function toDelivery({ MessageId, ReceiptHandle, Body, Attributes, MessageAttributes }: Message): Delivery {
  if (ReceiptHandle === undefined) throw new Error('SQS returned a message without a receipt handle')
  return {
    id: MessageId ?? '',
    receipt: ReceiptHandle,
    text: Body ?? '',
    attributes: MessageAttributes ?? {},
    groupId: Attributes?.MessageGroupId,
    receiveCount: Number(Attributes?.ApproximateReceiveCount ?? 1) || 1,
    trace: Attributes?.AWSTraceHeader,
  }
}
