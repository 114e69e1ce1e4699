// A relay process: sends the shop's events to SQS and to NATS. Started by crew.ts.
import { SQSClient } from '@aws-sdk/client-sqs'
import { Leasehold } from '../../src/index.ts'
import { deliver, Outbox, type Transport } from '../../src/outbox/index.ts'
import { SqsTransport } from '../../src/sqs/index.ts'
import { connectTo } from '../../tools/nats.ts'
import { billing, shipping, toStream } from './events.ts'
import { Part } from './part.ts'
import { LEASE, SWEEP } from './scale.ts'

const part = await Part.begin()
const { shopUrl, sqs, queueUrl, natsUrls } = part.places
const leasehold = new Leasehold({ connectionString: shopUrl, log: () => {} })
const connection = await connectTo(natsUrls)
const client = new SQSClient({ ...sqs, maxAttempts: 1 })

/** Stands still, if it must, when the broker has the events and the database does not know. */
function withCheckpoint(transport: Transport, broker: string): Transport {
  const { name, limits, acknowledgement, ordering, dedupeWindowMs } = transport
  return {
    ...{ name, limits, acknowledgement, ordering, dedupeWindowMs },
    sizeOf: (event) => transport.sizeOf(event),
    send: async (events, signal) => {
      const results = await transport.send(events, signal)
      const acknowledged = results.filter(({ outcome }) => outcome === 'acknowledged')
      if (acknowledged.length > 0) await part.checkpoint(broker, acknowledged.length)
      return results
    },
    close: () => transport.close(),
  }
}

const relay = new Outbox(leasehold).relay(
  [
    deliver(billing, withCheckpoint(new SqsTransport(client, { queueUrl, timeout: '1s' }), 'SQS')),
    deliver(shipping, withCheckpoint(toStream(connection), 'NATS')),
  ],
  { lease: LEASE, sweep: SWEEP, poll: '200ms', signals: ['SIGTERM'] },
)
part.tell({ type: 'ready' })
await relay.run()
await Promise.all([leasehold.close(), connection.close()])
client.destroy()
process.disconnect?.()
