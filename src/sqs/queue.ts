/** One SQS queue, and the five requests sent to it. */

import { randomUUID } from 'node:crypto'
import {
  ChangeMessageVisibilityBatchCommand,
  DeleteMessageBatchCommand,
  type Message,
  type MessageAttributeValue,
  ReceiveMessageCommand,
  SendMessageCommand,
} from '@aws-sdk/client-sqs'
import type { Refusal } from '../runtime/batcher.ts'
import { inTime, isFifo, refusals, type SqsClient } from './request.ts'

/** A reply that takes longer counts as lost. */
export const ANSWER_MS = 10_000

export interface DeadLetter {
  readonly url: string
  readonly body: string
  readonly attributes: Readonly<Record<string, MessageAttributeValue>>
  readonly trace: string | undefined
  readonly messageId: string
  readonly groupId: string | undefined
}

export class SqsQueue {
  readonly url: string
  readonly isFifo: boolean
  readonly #client: SqsClient
  /** Receives of a FIFO queue without a reply. The reply may be in flight, and its groups are blocked. */
  readonly #unheard: { readonly attempt: string; readonly most: number }[] = []

  constructor(client: SqsClient, url: string) {
    this.#client = client
    this.url = url
    this.isFifo = isFifo(url)
  }

  /**
   * Waits for messages, up to `waitS` seconds. After a receive without a reply, it repeats that receive with the same
   * attempt id, and SQS returns the same messages, if it had returned any.
   */
  async receive(most: number, waitS: number, visibilityS: number, signal: AbortSignal): Promise<readonly Message[]> {
    const attempt = this.isFifo ? this.#attemptAt(most) : undefined
    const command = new ReceiveMessageCommand({
      QueueUrl: this.url,
      MaxNumberOfMessages: most,
      WaitTimeSeconds: waitS,
      VisibilityTimeout: visibilityS,
      MessageSystemAttributeNames: ['ApproximateReceiveCount', 'MessageGroupId', 'AWSTraceHeader'],
      MessageAttributeNames: ['All'],
      ...(attempt === undefined ? {} : { ReceiveRequestAttemptId: attempt }),
    })
    const ask = (abortSignal: AbortSignal) => this.#client.send(command, { abortSignal })
    try {
      return (await inTime('receiving', waitS * 1_000 + ANSWER_MS, ask, signal)).Messages ?? []
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

  /** Returns the refused entries. */
  async changeVisibility(
    entries: readonly { readonly receipt: string; readonly seconds: number }[],
    withinMs = ANSWER_MS,
    signal?: AbortSignal,
  ): Promise<Refusal[]> {
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
  async delete(receipts: readonly string[]): Promise<Refusal[]> {
    const command = new DeleteMessageBatchCommand({
      QueueUrl: this.url,
      Entries: receipts.map((receipt, index) => ({ Id: String(index), ReceiptHandle: receipt })),
    })
    const ask = (abortSignal: AbortSignal) => this.#client.send(command, { abortSignal })
    return refusals(receipts.length, await inTime('deleting', ANSWER_MS, ask))
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
