// A receiver process of the back office: writes invoices for what SQS brings, or shipments for what NATS brings. Started by crew.ts.
import { SQSClient } from '@aws-sdk/client-sqs'
import pg from 'pg'
import { Inbox } from '../../src/inbox/index.ts'
import { Leasehold } from '../../src/index.ts'
import { byEvent, eventOf, inOneTransaction, NatsConsumer } from '../../src/nats/index.ts'
import { type Handle, SqsConsumer, type SqsMessage } from '../../src/sqs/index.ts'
import { connectTo } from '../../tools/nats.ts'
import { type Paid, type Receiver, STREAM, TABLES } from './events.ts'
import { Part } from './part.ts'
import { VISIBILITY } from './scale.ts'

const name = process.argv[2]!.split(' ')[0] as Receiver
const part = await Part.begin()
const { officeUrl, sqs, queueUrl, natsUrls, isUnprotected } = part.places
const pool = new pg.Pool({ connectionString: officeUrl })
const leasehold = new Leasehold({ pool, log: () => {} })
const inbox = new Inbox(leasehold, { source: name })
const [client, connection] = [new SQSClient(sqs), await connectTo(natsUrls)]
const underway = new Set<Promise<unknown>>()

const effect = (db: pg.Pool | pg.ClientBase, message: Pick<SqsMessage<string>, 'text' | 'data' | 'attributes'>) => {
  const { order } = JSON.parse(Buffer.from(eventOf(message).data ?? []).toString()) as Paid
  return db.query(`insert into ${TABLES[name]} (order_id) values ($1)`, [order])
}

/** The effect and the id of the event are one commit. The message is acknowledged after it. */
const inTransaction = inOneTransaction<string>(inbox, effect, byEvent)
const protectedHandle: Handle<string> = async (message) => {
  const answer = await inTransaction(message)
  await part.checkpoint('between the commit and the acknowledgement')
  return answer
}

/** The effect, then the acknowledgement. Nothing remembers the event. */
const effectFirst: Handle<string> = async (message) => {
  await effect(pool, message)
  await part.checkpoint('between the effect and the acknowledgement')
}

/** The acknowledgement, then the effect. */
const acknowledgeFirst: Handle<string> = async (message) => {
  const later = part.checkpoint('between the acknowledgement and the effect').then(() => effect(pool, message))
  underway.add(later)
  void later.finally(() => underway.delete(later))
}

const unprotected = name === 'billing' ? effectFirst : acknowledgeFirst
const common = {
  body: 'text' as const,
  visibility: VISIBILITY,
  concurrency: 4,
  signals: ['SIGTERM' as const],
  log: () => {},
  handle: isUnprotected ? unprotected : protectedHandle,
}
const consumer =
  name === 'billing'
    ? new SqsConsumer<string>(client, { ...common, queueUrl })
    : new NatsConsumer<string>(connection, { ...common, stream: STREAM, consumer: name })
part.tell({ type: 'ready' })
await consumer.run()
await Promise.all(underway)
await Promise.all([pool.end(), connection.close()])
client.destroy()
process.disconnect?.()
