// A scripted queue without SQS behind it: it can do what no emulator does, in the order that a test wants.
import type { TestContext } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import type { Message } from '@aws-sdk/client-sqs'
import { HeldMessage } from '../../src/consumer/held.ts'
import { BatchDelay } from '../../src/runtime/batch-delay.ts'
import { type SqsClient, SqsConsumer, type SqsConsumerOptions } from '../../src/sqs/index.ts'
import { silence, through } from './scene.ts'

export const FIFO = 'http://localhost/q.fifo'
export const STANDARD = 'http://localhost/q'

/** One of a request. */
interface Entry {
  readonly Id: string
  readonly ReceiptHandle: string
  readonly VisibilityTimeout?: number
}

/** As much of any request as is looked at. */
export interface Asked {
  readonly MaxNumberOfMessages?: number
  readonly ReceiveRequestAttemptId?: string
  readonly MessageSystemAttributeNames?: readonly string[]
  readonly Entries?: readonly Entry[]
  readonly MessageAttributes?: Record<string, { readonly StringValue: string }>
  readonly MessageSystemAttributes?: Record<string, { readonly StringValue: string }>
}

export interface Request {
  readonly name: string
  readonly asked: Asked
  readonly signal: AbortSignal
}

type Action = 'ReceiveMessage' | 'ChangeMessageVisibilityBatch' | 'DeleteMessageBatch' | 'SendMessage'

/** Replies in place of the script, or lets the script reply. */
type Answers = { readonly [A in Action]?: (request: Request, usual: () => unknown) => unknown }

/** A message whose id is its receipt and its body. */
export function message(id: string, group?: string, receiveCount = 1): Message {
  const ofGroup = group === undefined ? {} : { MessageGroupId: group }
  const Attributes = { ApproximateReceiveCount: String(receiveCount), ...ofGroup }
  return { MessageId: id, ReceiptHandle: id, Body: JSON.stringify(id), Attributes }
}

/** The answer to a batch of which these are refused. */
export function refusing({ Entries = [] }: Asked, receipts: readonly string[], Code: string, SenderFault: boolean) {
  const isRefused = ({ ReceiptHandle }: Entry) => receipts.includes(ReceiptHandle)
  return {
    Successful: Entries.filter((entry) => !isRefused(entry)),
    Failed: Entries.filter(isRefused).map(({ Id }) => ({ Id, Code, SenderFault })),
  }
}

/** An error as the SDK throws it when SQS has refused the whole request. */
export function refusal(name: string, httpStatusCode = 400): Error {
  return Object.assign(new Error(name), { name, $metadata: { httpStatusCode } })
}

/** Lets everything run that waits only for its turn, or for others in its batch. */
export async function settled(): Promise<void> {
  for (let moment = 0; moment < 3; moment++) {
    await new Promise<void>((resolve) => new BatchDelay(resolve, () => true).nudge())
    for (let turn = 0; turn < 10; turn++) await setImmediate()
  }
}

/** Delivers these at once and nothing after them, and records requests and results. */
export function scripted(messages: readonly Message[], answers: Answers = {}) {
  const requests: Request[] = []
  /** `delete a1`, `a1 in 30 s`. */
  const did: string[] = []
  let left: readonly Message[] | undefined = messages
  const client = through({} as SqsClient, async (name, _, { input: asked }, signal) => {
    const request = { name, asked, signal } as Request
    requests.push(request)
    const usual = () => {
      if (name === 'SendMessage') return {}
      if (name !== 'ReceiveMessage') return { Successful: asked.Entries }
      const Messages = left
      left = undefined
      return Messages === undefined ? silence(signal) : { Messages }
    }
    const answer = await (answers[name as Action]?.(request, usual) ?? usual())
    for (const { Id } of (answer as { Successful?: Entry[] }).Successful ?? []) {
      const { ReceiptHandle, VisibilityTimeout } = request.asked.Entries!.find((entry) => entry.Id === Id)!
      did.push(name === 'DeleteMessageBatch' ? `delete ${ReceiptHandle}` : `${ReceiptHandle} in ${VisibilityTimeout} s`)
    }
    return answer
  })
  /** A consumer of it that runs until the test ends. */
  const start = (t: Pick<TestContext, 'after'>, options: Partial<SqsConsumerOptions>): SqsConsumer => {
    const consumer = new SqsConsumer(client, {
      queueUrl: FIFO,
      handle: () => {},
      signals: [],
      log: () => {},
      ...options,
    })
    const running = consumer.run()
    t.after(async () => {
      await consumer.stop({ grace: 0 })
      await running
    })
    return consumer
  }
  const all = (name: Action) => requests.filter((request) => request.name === name)
  return { client, did, requests, all, start }
}

/** One that was received, asked for at `sentAt`, and is hidden for so long. */
export function heldMessage(id: string, sentAt: number, visibilityMs: number): HeldMessage {
  const nothing = { text: '', attributes: {}, groupId: undefined, receiveCount: 1, trace: undefined }
  return new HeldMessage({ id, receipt: id, ...nothing }, sentAt, visibilityMs)
}
