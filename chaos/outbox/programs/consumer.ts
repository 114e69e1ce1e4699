// A consumer process: receives from every destination, in the order of its keys, and has each event's effect once by the inbox. The
// effect is a row, and nothing prevents a second one. It ends on SIGTERM.
import { createHash } from 'node:crypto'
import { SQSClient } from '@aws-sdk/client-sqs'
import type pg from 'pg'
import { Inbox } from '../../../src/inbox/index.ts'
import { byEvent, eventOf, inOneTransaction, NatsConsumer } from '../../../src/nats/index.ts'
import { SqsConsumer } from '../../../src/sqs/index.ts'
import { connectTo } from '../../../tools/nats.ts'
import { begin, nameOf, print } from '../../common/program.ts'
import { LANES, STREAMS } from '../destinations.ts'
import { plantedHandle } from '../plants/in-process.ts'
import { leasehold, orders, pool, witness } from './process.ts'

type Received = Parameters<typeof eventOf>[0] & { readonly receiveCount: number }

const COMMON = {
  body: 'text',
  visibility: '2s',
  grace: '800ms',
  backoff: { first: '1s', max: '2s' },
  log: ({ level, message }: { level: string; message: string }) => witness.write('log', { level, message }),
} as const

const nats = await connectTo([orders.nats], { waitOnFirstConnect: true })
const client = new SQSClient(orders.sqs)
const streams = STREAMS.flatMap((stream) =>
  Array.from(
    { length: LANES },
    (_, lane) =>
      new NatsConsumer<string>(nats, {
        ...COMMON,
        stream,
        consumer: `${stream}-${lane}`,
        filterSubject: `${stream}.${lane}`,
        inOrder: true,
        handle: handlerOf(stream),
      }),
  ),
)
const queue = new SqsConsumer<string>(client, { ...COMMON, queueUrl: orders.queueUrl, handle: handlerOf('audit') })
for (const consumer of [...streams, queue]) {
  consumer.on('already_handled', ({ messageId }) => witness.write('duplicate', { message: messageId }))
  consumer.on('returned', ({ reason }) => witness.write('returned', { reason }))
  consumer.on('problem', ({ doing, error }) => witness.write('problem', { doing, error: nameOf(error) }))
}

begin(witness)
const running = Promise.all([...streams, queue].map((consumer) => consumer.run()))
print('ready')
await running
witness.write('left')
await leasehold.close()
await pool.end()
client.destroy()
await nats.close()

function handlerOf(destination: string) {
  const inbox = new Inbox(leasehold, { source: destination, wait: '1s' })
  const apply = inOneTransaction<string>(inbox, (tx, message) => effect(tx, destination, message), byEvent)
  const noting = (message: Parameters<typeof apply>[0]) => {
    const { id, w } = partsOf(message)
    witness.write('delivered', { to: destination, id, w, times: message.receiveCount })
    return apply(message)
  }
  return plantedHandle(orders.plant, noting, witness)
}

async function effect(tx: pg.ClientBase, destination: string, message: Received): Promise<void> {
  const { id, w, digest } = partsOf(message)
  await tx.query(
    'insert into chaos.effect (destination, key, id, w, digest, process) values ($1, $2, $3, $4, $5, $6)',
    [destination, eventOf(message).key, id, w, digest, orders.name],
  )
}

function partsOf(message: Received): { id: string; w: string; digest: string } {
  const { id, data } = eventOf(message)
  const bytes = Buffer.from(data ?? [])
  return { id, w: JSON.parse(bytes.toString()).w, digest: createHash('md5').update(bytes).digest('hex') }
}
