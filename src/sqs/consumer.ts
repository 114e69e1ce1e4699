/** A consumer of one SQS queue. What it does with messages is in consumer/; how they come and go is here. */

import { Consumer } from '../consumer/consumer.ts'
import { Receiver } from '../consumer/receiver.ts'
import { InvalidOptionError } from '../core/errors.ts'
import { type SqsConsumerOptions, settings } from './options.ts'
import { SqsQueue } from './queue.ts'
import type { SqsClient } from './request.ts'

export class SqsConsumer<Body = unknown> extends Consumer {
  constructor(client: SqsClient, options: SqsConsumerOptions<Body>) {
    if (typeof client?.send !== 'function') throw new InvalidOptionError('client', 'it must be an SQSClient')
    const { queueUrl, deadLetterQueueUrl, ...checked } = settings(options)
    const { visibilityMs } = checked
    const queue = new SqsQueue(client, queueUrl, deadLetterQueueUrl)
    super(checked, queue, (parts) => new Receiver({ ...parts, queue, visibilityMs }))
  }
}
