// The queue of one test, behind a proxy that fails on command. Its contents are read without the proxy.
import type { TestContext } from 'node:test'
import { DeleteMessageBatchCommand, type Message, ReceiveMessageCommand, SQSClient } from '@aws-sdk/client-sqs'
import { type FaultySqs, type FaultySqsOptions, startFaultySqs } from '../../tools/faulty-sqs.ts'
import { startSqs } from '../../tools/sqs.ts'
import { lastFirst } from '../support/worker.ts'

export interface BehindProxy {
  readonly proxy: FaultySqs
  /** Through the proxy, and with no attempts of its own. */
  readonly client: SQSClient
  /** Not through the proxy. */
  readonly direct: SQSClient
  readonly queueUrl: string
  /** All that can be received now, in their order. They are deleted. */
  drain(): Promise<Message[]>
  /** The same, as the ids in their bodies. */
  drainIds(): Promise<string[]>
}

export async function queueBehindProxy(
  t: TestContext,
  options: FaultySqsOptions & { readonly queue?: string; readonly attributes?: Record<string, string> } = {},
): Promise<BehindProxy> {
  const { queue = 'rows', attributes, ...faulty } = options
  const undo = lastFirst(t)
  const sqs = await startSqs()
  undo.after(() => sqs.stop())
  const proxy = await startFaultySqs(sqs, faulty)
  undo.after(() => proxy.stop())
  const client = new SQSClient({ ...proxy.config, maxAttempts: 1 })
  undo.after(() => client.destroy())
  const queueUrl = await sqs.createQueue(queue, attributes)
  const drain = async () => {
    const all: Message[] = []
    for (;;) {
      const { Messages = [] } = await sqs.client.send(
        new ReceiveMessageCommand({
          QueueUrl: queueUrl,
          MaxNumberOfMessages: 10,
          MessageSystemAttributeNames: ['All'],
        }),
      )
      if (Messages.length === 0) return all
      all.push(...Messages)
      const Entries = Messages.map(({ ReceiptHandle }, index) => ({ Id: String(index), ReceiptHandle }))
      await sqs.client.send(new DeleteMessageBatchCommand({ QueueUrl: queueUrl, Entries }))
    }
  }
  const drainIds = async () => (await drain()).map(({ Body }) => JSON.parse(Body!).id as string)
  return { proxy, client, direct: sqs.client, queueUrl, drain, drainIds }
}
