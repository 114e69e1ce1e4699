// A relay process: sends events to all destinations, through the faults. It ends on SIGTERM.
import { SQSClient } from '@aws-sdk/client-sqs'
import { NatsTransport } from '../../../src/nats/index.ts'
import { deliver, Outbox, type Transport } from '../../../src/outbox/index.ts'
import { SqsTransport } from '../../../src/sqs/index.ts'
import { connectTo } from '../../../tools/nats.ts'
import { begin, nameOf, print } from '../../common/program.ts'
import { DESTINATIONS, laneOf, MAX_BYTES } from '../destinations.ts'
import { plantedTransport } from '../plants/in-process.ts'
import { leasehold, orders, pool, witness } from './process.ts'

const ANSWER = '1s'

const nats = await connectTo([orders.nats], { waitOnFirstConnect: true })
const client = new SQSClient(orders.sqs)
const toStream = (name: string) =>
  new NatsTransport(nats, { subject: ({ key }) => `${name}.${laneOf(key)}`, timeout: ANSWER })
const TRANSPORTS = {
  ledger: toStream('ledger'),
  stock: toStream('stock'),
  audit: new SqsTransport(client, { queueUrl: orders.queueUrl, maxBytes: MAX_BYTES, timeout: ANSWER }),
}
const relay = new Outbox(leasehold).relay(
  Object.entries(DESTINATIONS).map(([name, destination]) => {
    const transport = witnessed(name, TRANSPORTS[name as keyof typeof TRANSPORTS])
    return deliver(destination, plantedTransport(orders.plant, transport, witness))
  }),
  { label: orders.name, lease: orders.leaseMs, sweep: orders.sweepMs, poll: '500ms', grace: '800ms' },
)
relay.worker.on('problem', ({ doing, error }) => witness.write('problem', { doing, error: nameOf(error) }))

begin(witness)
const running = relay.run()
print('ready')
await running
witness.write('left')
await leasehold.close()
await pool.end()
client.destroy()
await nats.close()

/** Notes each event before it is sent, and each result. */
function witnessed(to: string, transport: Transport): Transport {
  const send: Transport['send'] = async (events, signal) => {
    const ids = events.map(({ id }) => id)
    witness.write('sends', { to, ids })
    try {
      const results = await transport.send(events, signal)
      witness.write('sent', { to, ids, outcomes: results.map(({ outcome }) => outcome) })
      return results
    } catch (error) {
      witness.write('unsent', { to, ids, error: nameOf(error) })
      throw error
    }
  }
  return {
    name: transport.name,
    limits: transport.limits,
    acknowledgement: transport.acknowledgement,
    ordering: transport.ordering,
    dedupeWindowMs: transport.dedupeWindowMs,
    sizeOf: (event) => transport.sizeOf(event),
    send,
    close: () => transport.close(),
  }
}
