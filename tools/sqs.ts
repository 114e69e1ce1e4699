/** An SQS on loopback, spoken to over HTTP by the real SDK, for tests and demos. Its messages live as long as it does. */
import { CreateQueueCommand, SQSClient, type SQSClientConfig } from '@aws-sdk/client-sqs'
import { buildApp } from 'fauxqs'
import { storeWithBatchesOfGroups } from './fifo-batches.ts'

export interface SqsServer {
  readonly endpoint: string
  /** What the SDK needs to know. */
  readonly config: SQSClientConfig
  readonly client: SQSClient
  /** Returns the new queue's URL. A FIFO queue's name ends in `.fifo`. */
  createQueue(name: string, attributes?: Record<string, string>): Promise<string>
  stop(): Promise<void>
}

/** `groupsTogether`: a receive from a FIFO queue gets several messages of a group, as from AWS. By itself it gets one. */
export async function startSqs({ groupsTogether = false } = {}): Promise<SqsServer> {
  // Its own start function would listen on every interface.
  const app = buildApp({ logger: false, ...(groupsTogether ? await storeWithBatchesOfGroups() : {}) })
  const endpoint = await app.listen({ host: '127.0.0.1', port: 0 })
  const credentials = { accessKeyId: 'local', secretAccessKey: 'local' }
  // Its queue URLs name a host that only it knows.
  const config = { endpoint, region: 'us-east-1', credentials, useQueueUrlAsEndpoint: false }
  const client = new SQSClient(config)
  return {
    endpoint,
    config,
    client,
    createQueue: async (name, attributes = {}) => {
      const fifo = name.endsWith('.fifo') ? { FifoQueue: 'true' } : {}
      const { QueueUrl } = await client.send(
        new CreateQueueCommand({ QueueName: name, Attributes: { ...fifo, ...attributes } }),
      )
      return QueueUrl!
    },
    stop: async () => {
      client.destroy()
      await app.close()
    },
  }
}
