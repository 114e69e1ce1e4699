/**
 * Consumers of one queue that all do the same: change a row by one guarded UPDATE, then delete the message. Each holds as
 * many messages at a time, extends them as often, and has the same pool. Each has the SDK that its own package finds.
 */
import { createRequire } from 'node:module'
import type { Message, SQSClientConfig } from '@aws-sdk/client-sqs'
import type { ContenderName } from './names.ts'

/** SQS returns no more at a time. */
const BATCH = 10
const VISIBILITY_S = 30

export interface Work {
  readonly sqs: SQSClientConfig
  readonly queueUrl: string
  readonly concurrency: number
  /** What a handler does about a row. */
  readonly complete: (id: number) => Promise<void>
  readonly onRequest: () => void
  /** Once for each message that is known to be deleted. */
  readonly onDeleted: () => void
}

/** Returns the function that stops it. */
export function start(name: ContenderName, work: Work): Promise<() => Promise<unknown>> {
  return name === 'leasehold' ? leasehold(work) : sqsConsumer(work, name === 'sqs-consumer, by batches')
}

async function leasehold({ queueUrl, concurrency, complete, onDeleted, ...work }: Work) {
  const { SqsConsumer } = await import('../../src/sqs/index.ts')
  const client = clientOf('../../src/sqs/index.ts', work)
  const consumer = new SqsConsumer<{ id: number }>(client, {
    queueUrl,
    concurrency,
    visibility: `${VISIBILITY_S}s`,
    signals: [],
    handle: ({ body }) => complete(body.id),
  })
  consumer.on('handled', ({ deleted }) => {
    if (deleted) onDeleted()
  })
  void consumer.run()
  return async () => {
    await consumer.stop()
    client.destroy()
  }
}

/** It holds one batch at a time, so more of them make up for that, as its users do. */
async function sqsConsumer(
  { queueUrl, concurrency, complete, onDeleted, ...work }: Work,
  byBatches: boolean,
): Promise<() => Promise<unknown>> {
  const { Consumer } = await import('sqs-consumer')
  const client = clientOf('sqs-consumer', work)
  const handle = async (message: Message) => {
    await complete(JSON.parse(message.Body!).id)
    return message
  }
  const consumers = Array.from({ length: Math.ceil(concurrency / BATCH) }, () => {
    const consumer = Consumer.create({
      sqs: client,
      queueUrl,
      batchSize: BATCH,
      visibilityTimeout: VISIBILITY_S,
      heartbeatInterval: VISIBILITY_S / 3,
      messageSystemAttributeNames: ['ApproximateReceiveCount'],
      ...(byBatches
        ? { handleMessageBatch: (messages: Message[]) => Promise.all(messages.map(handle)) }
        : { handleMessage: handle }),
    })
    consumer.on('message_processed', onDeleted)
    consumer.on('error', tell)
    consumer.on('processing_error', tell)
    consumer.start()
    return consumer
  })
  return async () => {
    for (const consumer of consumers) consumer.stop({ abort: true })
    client.destroy()
  }
}

/** Polls aborted at the end are not problems. */
function tell(error: Error & { readonly code?: string }): void {
  if (error.code !== 'AbortError') console.error(error)
}

function clientOf(user: string, { sqs, onRequest }: Pick<Work, 'sqs' | 'onRequest'>) {
  const own = createRequire(import.meta.resolve(user))
  const { SQSClient } = own('@aws-sdk/client-sqs') as typeof import('@aws-sdk/client-sqs')
  // Its warning about fifty sockets would be its only output.
  const client = new SQSClient({ ...sqs, requestHandler: { httpsAgent: {}, httpAgent: { maxSockets: 200 } } })
  client.middlewareStack.add(
    (next) => (args) => {
      onRequest()
      return next(args)
    },
    { step: 'build' },
  )
  return client
}
