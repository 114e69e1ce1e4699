/** An SQS on loopback, spoken to over HTTP by the real SDK, for tests and demos. Its messages live as long as it does. */
import { CreateQueueCommand, GetQueueAttributesCommand, SQSClient, type SQSClientConfig } from '@aws-sdk/client-sqs'
import { buildApp } from 'fauxqs'
import { caller, sqsStore } from './sqs-store.ts'

export interface SqsServer {
  readonly endpoint: string
  /** The client configuration for the SDK. */
  readonly config: SQSClientConfig
  readonly client: SQSClient
  /**
   * Returns the new queue's URL. A FIFO queue's name ends in `.fifo`. With `dead`, messages go there after so many
   * deliveries.
   */
  createQueue(
    name: string,
    attributes?: Readonly<Record<string, string>>,
    dead?: { readonly url: string; readonly after: number },
  ): Promise<string>
  /** How many messages are in the queue, visible or not. */
  depth(url: string): Promise<{ visible: number; inFlight: number }>
  /** Makes all messages in flight visible again, as if their timeout were over: no test has to wait for that. */
  endTimeouts(url: string): void
  stop(): Promise<void>
}

/** For a program that takes its SQS from the environment, as examples/sqs.ts does. */
export function environmentOf({ endpoint }: SqsServer): Record<string, string> {
  return {
    SQS_ENDPOINT: endpoint,
    AWS_REGION: 'us-east-1',
    AWS_ACCESS_KEY_ID: 'local',
    AWS_SECRET_ACCESS_KEY: 'local',
    AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED: 'true',
  }
}

/** `groupsTogether`: a receive from a FIFO queue returns several messages of a group, as AWS does. Default: one. */
export async function startSqs({ groupsTogether = false } = {}): Promise<SqsServer> {
  // Its own start function would listen on every interface.
  const { stores, endTimeouts } = await sqsStore({ groupsTogether })
  const app = buildApp({ logger: false, stores })
  app.addHook('preHandler', (request, _, done) => caller.run(request.raw.socket, done))
  const endpoint = await app.listen({ host: '127.0.0.1', port: 0 })
  const credentials = { accessKeyId: 'local', secretAccessKey: 'local' }
  // Its queue URLs name a host that only the emulator knows.
  const config = { endpoint, region: 'us-east-1', credentials, useQueueUrlAsEndpoint: false }
  const client = new SQSClient(config)
  const attributesOf = async (url: string): Promise<Partial<Record<string, string>>> => {
    const command = new GetQueueAttributesCommand({ QueueUrl: url, AttributeNames: ['All'] })
    return (await client.send(command)).Attributes ?? {}
  }
  return {
    endpoint,
    config,
    client,
    createQueue: async (name, attributes = {}, dead) => {
      const fifo = name.endsWith('.fifo') ? { FifoQueue: 'true' } : {}
      const redrive = dead && {
        deadLetterTargetArn: (await attributesOf(dead.url)).QueueArn,
        maxReceiveCount: dead.after,
      }
      const { QueueUrl } = await client.send(
        new CreateQueueCommand({
          QueueName: name,
          Attributes: { ...fifo, ...attributes, ...(redrive && { RedrivePolicy: JSON.stringify(redrive) }) },
        }),
      )
      return QueueUrl!
    },
    depth: async (url) => {
      const { ApproximateNumberOfMessages, ApproximateNumberOfMessagesNotVisible } = await attributesOf(url)
      return { visible: Number(ApproximateNumberOfMessages), inFlight: Number(ApproximateNumberOfMessagesNotVisible) }
    },
    endTimeouts,
    stop: async () => {
      client.destroy()
      await app.close()
    },
  }
}
