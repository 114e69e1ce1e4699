/** A consumer of one JetStream stream. What it does with messages is in consumer/; how they come and go is here. */

import { Consumer } from '../consumer/consumer.ts'
import { Receiver } from '../consumer/receiver.ts'
import { checkConnection, type NatsConnection } from './client.ts'
import { type NatsConsumerOptions, settings } from './options.ts'
import { NatsQueue } from './queue.ts'

export class NatsConsumer<Body = unknown> extends Consumer {
  /** The connection stays yours: close it after run() has resolved. */
  constructor(connection: NatsConnection, options: NatsConsumerOptions<Body>) {
    checkConnection('NatsConsumer.connection', connection)
    const checked = settings(options)
    const queue = new NatsQueue(connection, checked)
    super(checked, queue, (parts) => new Receiver({ ...parts, queue, visibilityMs: checked.visibilityMs }))
  }
}
