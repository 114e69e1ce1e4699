/** One SQS queue, and the five calls that are made to it. None of them waits for ever: the SDK itself knows no deadline. */
import { randomUUID } from 'node:crypto'
import {
  type BatchResultErrorEntry,
  ChangeMessageVisibilityBatchCommand,
  DeleteMessageBatchCommand,
  type Message,
  type MessageAttributeValue,
  ReceiveMessageCommand,
  SendMessageCommand,
  type SQSClient,
} from '@aws-sdk/client-sqs'
import { DeadlineError } from '../core/errors.ts'
import { withDeadline } from '../core/timer.ts'

/** As much of an SQSClient as is used. */
export type SqsClient = Pick<SQSClient, 'send'>

/** What SQS takes in one call. */
export const BATCH = 10
/** An answer that takes longer is as good as lost. */
const ANSWER_MS = 10_000

/** Why one entry of a batch was refused. forGood: asking again would not help. */
export interface Refusal {
  readonly index: number
  readonly code: string
  readonly forGood: boolean
}

interface BatchAnswer {
  readonly Successful: readonly { readonly Id?: string | undefined }[] | undefined
  readonly Failed: readonly BatchResultErrorEntry[] | undefined
}

export interface DeadLetter {
  readonly url: string
  readonly body: string
  readonly attributes: Readonly<Record<string, MessageAttributeValue>>
  readonly messageId: string
  readonly groupId: string | undefined
}

export class SqsQueue {
  readonly url: string
  readonly isFifo: boolean
  readonly #client: SqsClient

  constructor(client: SqsClient, url: string) {
    this.#client = client
    this.url = url
    this.isFifo = url.endsWith('.fifo')
  }

  /** Waits for messages, up to `waitS` seconds. */
  async receive(most: number, waitS: number, visibilityS: number, signal: AbortSignal): Promise<readonly Message[]> {
    const command = new ReceiveMessageCommand({
      QueueUrl: this.url,
      MaxNumberOfMessages: most,
      WaitTimeSeconds: waitS,
      VisibilityTimeout: visibilityS,
      MessageSystemAttributeNames: ['ApproximateReceiveCount', 'MessageGroupId'],
      MessageAttributeNames: ['All'],
      // When the SDK asks again after a lost reply it gets the same messages, instead of a group that is blocked.
      ...(this.isFifo ? { ReceiveRequestAttemptId: randomUUID() } : {}),
    })
    const ask = (abortSignal: AbortSignal) => this.#client.send(command, { abortSignal })
    return (await inTime('receiving', waitS * 1_000 + ANSWER_MS, ask, signal)).Messages ?? []
  }

  /** Answers which were refused. */
  async changeVisibility(
    entries: readonly { readonly receipt: string; readonly seconds: number }[],
    withinMs = ANSWER_MS,
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
    return refusals(entries.length, await inTime('changing visibility', withinMs, ask))
  }

  /** Answers which were refused. Deleting what was deleted is no error, so it can be asked again. */
  async delete(receipts: readonly string[]): Promise<Refusal[]> {
    const command = new DeleteMessageBatchCommand({
      QueueUrl: this.url,
      Entries: receipts.map((receipt, index) => ({ Id: String(index), ReceiptHandle: receipt })),
    })
    const ask = (abortSignal: AbortSignal) => this.#client.send(command, { abortSignal })
    return refusals(receipts.length, await inTime('deleting', ANSWER_MS, ask))
  }

  async sendDeadLetter({ url, body, attributes, messageId, groupId }: DeadLetter): Promise<void> {
    const fifo = url.endsWith('.fifo')
      ? { MessageGroupId: groupId ?? messageId, MessageDeduplicationId: messageId }
      : undefined
    const command = new SendMessageCommand({
      QueueUrl: url,
      MessageBody: body,
      MessageAttributes: { ...attributes },
      ...fifo,
    })
    await inTime('sending a dead letter', ANSWER_MS, (abortSignal) => this.#client.send(command, { abortSignal }))
  }
}

/** An entry that the answer does not mention was not done. */
function refusals(entries: number, { Successful = [], Failed = [] }: BatchAnswer): Refusal[] {
  const done = new Set(Successful.map(({ Id }) => Id))
  const failed = new Map(Failed.map((entry) => [entry.Id, entry]))
  const refused: Refusal[] = []
  for (let index = 0; index < entries; index++) {
    const failure = failed.get(String(index))
    if (failure === undefined && done.has(String(index))) continue
    refused.push({ index, code: failure?.Code ?? 'NotAnswered', forGood: failure?.SenderFault === true })
  }
  return refused
}

async function inTime<T>(
  what: string,
  ms: number,
  ask: (abortSignal: AbortSignal) => Promise<T>,
  signal?: AbortSignal,
): Promise<T> {
  const hangUp = new AbortController()
  const onAbort = () => hangUp.abort()
  if (signal?.aborted) onAbort()
  signal?.addEventListener('abort', onAbort)
  try {
    return await withDeadline(ask(hangUp.signal), ms, () => {
      hangUp.abort()
      return new DeadlineError(what, ms)
    })
  } finally {
    signal?.removeEventListener('abort', onAbort)
  }
}
