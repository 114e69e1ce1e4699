// A database, an SQS and a witness of effects, and consumers that are stopped with their test.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import type { TestContext } from 'node:test'
import { type Message, ReceiveMessageCommand, SendMessageBatchCommand, SendMessageCommand } from '@aws-sdk/client-sqs'
import { type SqsClient, SqsConsumer, type SqsConsumerEvents, type SqsConsumerOptions } from '../../src/sqs/index.ts'
import { type SqsServer, startSqs } from '../../tools/sqs.ts'
import { startProvider } from '../support/provider.ts'
import { inTime, type Scene, scene } from '../support/worker.ts'

export interface SqsScene extends Scene {
  readonly sqs: SqsServer
  readonly provider: Awaited<ReturnType<typeof startProvider>>
  /** A new queue's URL; with `dead_letter`, one whose messages go to that queue after so many deliveries. */
  queue(options?: { fifo?: boolean; dead?: { url: string; after: number } }): Promise<string>
  /** Sends a body, and returns the message's id. Text is sent as it is. */
  send(url: string, body: unknown, more?: { group?: string; attributes?: Record<string, string> }): Promise<string>
  /** Many bodies, as JSON. */
  sendMany(url: string, bodies: readonly unknown[]): Promise<void>
  /** A consumer that runs from now on. */
  consumer<Body>(options: SqsConsumerOptions<Body>, client?: SqsClient): SqsConsumer<Body>
  /** What can be received now, of at most ten; waits a moment for the first. */
  receive(url: string, visibilitySeconds?: number): Promise<Message[]>
  /** How many messages are in the queue, seen or not. */
  depth(url: string): Promise<{ visible: number; inFlight: number }>
}

export async function sqsScene(t: TestContext): Promise<SqsScene> {
  const base = await scene(t)
  const sqs = await startSqs()
  base.undo.after(() => sqs.stop())
  const provider = await startProvider(base.undo)
  const { client } = sqs
  return {
    ...base,
    sqs,
    provider,
    queue: async ({ fifo = false, dead } = {}) => {
      const name = `q-${randomUUID()}`
      return fifo
        ? sqs.createQueue(`${name}.fifo`, { ContentBasedDeduplication: 'false' }, dead)
        : sqs.createQueue(name, {}, dead)
    },
    send: async (url, body, { group, attributes = {} } = {}) => {
      const { MessageId } = await client.send(
        new SendMessageCommand({
          QueueUrl: url,
          MessageBody: typeof body === 'string' ? body : JSON.stringify(body),
          MessageAttributes: Object.fromEntries(
            Object.entries(attributes).map(([name, value]) => [name, { DataType: 'String', StringValue: value }]),
          ),
          ...(url.endsWith('.fifo') ? { MessageGroupId: group ?? 'g', MessageDeduplicationId: randomUUID() } : {}),
        }),
      )
      return MessageId!
    },
    sendMany: async (url, bodies) => {
      for (let from = 0; from < bodies.length; from += 10) {
        const Entries = bodies
          .slice(from, from + 10)
          .map((body, index) => ({ Id: String(index), MessageBody: JSON.stringify(body) }))
        await client.send(new SendMessageBatchCommand({ QueueUrl: url, Entries }))
      }
    },
    consumer: (options, through = client) => {
      const made = new SqsConsumer(through, {
        signals: [],
        log: (entry) => base.log.push(entry),
        ...options,
      })
      const running = made.run()
      base.undo.after(async () => {
        await made.stop({ grace: 0 })
        await running
      })
      return made
    },
    receive: async (url, visibilitySeconds = 0) => {
      const { Messages = [] } = await client.send(
        new ReceiveMessageCommand({
          QueueUrl: url,
          MaxNumberOfMessages: 10,
          WaitTimeSeconds: 20,
          VisibilityTimeout: visibilitySeconds,
          MessageSystemAttributeNames: ['All'],
          MessageAttributeNames: ['All'],
        }),
      )
      return Messages
    },
    depth: sqs.depth,
  }
}

type EventOf<Name extends keyof SqsConsumerEvents> = NonNullable<SqsConsumerEvents[Name][0]>

/** The next `count` events of this name. Call it before you cause them. */
export function nextEvents<Name extends keyof SqsConsumerEvents, Body>(
  consumer: SqsConsumer<Body>,
  name: Name,
  count: number,
): Promise<EventOf<Name>[]> {
  const events: EventOf<Name>[] = []
  const answer = new Promise<EventOf<Name>[]>((resolve) => {
    consumer.on(name, (...[event]: SqsConsumerEvents[Name]) => {
      events.push(event as EventOf<Name>)
      if (events.length === count) resolve(events)
    })
  })
  return inTime(answer, `not ${count} times "${name}"`)
}

/** The next one. */
export async function next<Name extends keyof SqsConsumerEvents, Body>(
  consumer: SqsConsumer<Body>,
  name: Name,
): Promise<EventOf<Name>> {
  return (await nextEvents(consumer, name, 1))[0]!
}

export async function isEmpty({ depth }: SqsScene, url: string): Promise<void> {
  assert.deepEqual(await depth(url), { visible: 0, inFlight: 0 })
}

/** The class of a command without its ending, such as DeleteMessageBatch. */
export function nameOf(command: object): string {
  return command.constructor.name.replace(/Command$/, '')
}

interface Command {
  readonly input: { readonly Entries?: readonly { readonly Id: string; readonly ReceiptHandle: string }[] }
}

/** The same client, with a function that decides about each command. */
export function through(
  client: SqsClient,
  decide: (name: string, send: () => Promise<unknown>, command: Command, signal: AbortSignal) => Promise<unknown>,
): SqsClient {
  const send = (command: Command, options: { readonly abortSignal: AbortSignal }) => {
    const go = () => (client.send as (...args: unknown[]) => Promise<unknown>)(command, options)
    return decide(nameOf(command), go, command, options.abortSignal)
  }
  return { send } as unknown as SqsClient
}

/** The same client, which holds redelivered messages until this resolves: a test may change things before that. */
export function redeliveringAfter(client: SqsClient, ready: Promise<unknown>): SqsClient {
  return through(client, async (name, send) => {
    const answer = (await send()) as { readonly Messages?: readonly Message[] }
    const isAgain = ({ Attributes }: Message) => Attributes?.ApproximateReceiveCount !== '1'
    if (name === 'ReceiveMessage' && answer.Messages?.some(isAgain)) await ready
    return answer
  })
}

/** Never replies, and rejects when aborted. */
export function silence(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    if (signal.aborted) reject(signal.reason)
    signal.addEventListener('abort', () => reject(signal.reason))
  })
}
