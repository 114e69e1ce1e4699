/** The queue of this demo, its dead letters, and its producer. */
import { ReceiveMessageCommand, SendMessageCommand } from '@aws-sdk/client-sqs'
import { SqsPublisher } from '../../src/sqs/index.ts'
import type { SqsServer } from '../../tools/sqs.ts'
import { DELIVERIES_AT_MOST } from './scale.ts'

export interface DeadLetter {
  readonly body: string | undefined
  readonly reason: string | undefined
}

export class Queue {
  readonly url: string
  readonly deadLetterUrl: string
  readonly #sqs: SqsServer
  readonly #publisher: SqsPublisher

  private constructor(sqs: SqsServer, url: string, deadLetterUrl: string) {
    this.url = url
    this.deadLetterUrl = deadLetterUrl
    this.#sqs = sqs
    this.#publisher = new SqsPublisher(sqs.client, { queueUrl: url, body: (id) => ({ id: Number(id) }) })
  }

  static async create(sqs: SqsServer): Promise<Queue> {
    const deadLetterUrl = await sqs.createQueue('dead-letters')
    return new Queue(
      sqs,
      await sqs.createQueue('summaries', {}, { url: deadLetterUrl, after: DELIVERIES_AT_MOST }),
      deadLetterUrl,
    )
  }

  /** One message for each row. */
  async publish(ids: readonly number[]): Promise<void> {
    await this.#publisher.publish(ids)
  }

  async send(body: string): Promise<void> {
    await this.#sqs.client.send(new SendMessageCommand({ QueueUrl: this.url, MessageBody: body }))
  }

  /** Messages not deleted yet, also those being handled. */
  async left(): Promise<number> {
    const { visible, inFlight } = await this.#sqs.depth(this.url)
    return visible + inFlight
  }

  /** Ten at most. */
  async deadLetters(): Promise<DeadLetter[]> {
    const { Messages = [] } = await this.#sqs.client.send(
      new ReceiveMessageCommand({
        QueueUrl: this.deadLetterUrl,
        MaxNumberOfMessages: 10,
        VisibilityTimeout: 0,
        MessageAttributeNames: ['All'],
      }),
    )
    return Messages.map(({ Body, MessageAttributes }) => ({
      body: Body,
      reason: MessageAttributes?.['leasehold.reason']?.StringValue,
    }))
  }
}
