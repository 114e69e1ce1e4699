// A till: pays orders. `node --import tsx demo/outbox/till.ts "till 1"`, started by crew.ts.
import { randomUUID } from 'node:crypto'
import { SQSClient } from '@aws-sdk/client-sqs'
import pg from 'pg'
import { Leasehold, withTransaction } from '../../src/index.ts'
import { Outbox, type OutgoingEvent, type Transport } from '../../src/outbox/index.ts'
import { SqsTransport } from '../../src/sqs/index.ts'
import { connectTo } from '../../tools/nats.ts'
import { SOURCE, TYPE, toStream } from './events.ts'
import { Part } from './part.ts'
import { LANES } from './scale.ts'

const part = await Part.begin((command) => {
  if (command.type === 'pay') void payAll(command.first, command.last)
  else if (command.type === 'lose a reply') losesReply = true
})
const { shopUrl, sqs, queueUrl, natsUrls, isUnprotected } = part.places
let losesReply = false
const pool = new pg.Pool({ connectionString: shopUrl })
const leasehold = new Leasehold({ pool })
const outbox = new Outbox(leasehold, { source: SOURCE })
const connection = await connectTo(natsUrls)
const client = new SQSClient({ ...sqs, maxAttempts: 1 })
const transports: Transport[] = [new SqsTransport(client, { queueUrl, timeout: '1s' }), toStream(connection)]

process.once('SIGTERM', async () => {
  await Promise.all([pool.end(), connection.close()])
  client.destroy()
  process.disconnect?.()
})
part.tell({ type: 'ready' })

async function payAll(first: number, last: number): Promise<void> {
  let next = first
  const lane = async () => {
    while (next <= last) await (isUnprotected ? payAndPublish(next++) : pay(next++))
  }
  await Promise.all(Array.from({ length: LANES }, lane))
  part.tell({ type: 'paid', last })
}

/** The order and its event are one commit. A relay sends the event. */
async function pay(order: number): Promise<void> {
  await withTransaction(pool, async (tx) => {
    if (!(await insert(tx, order))) return
    await outbox.publish(tx, { type: TYPE, key: `order:${order}`, data: { order } })
    await part.checkpoint('between the publish and the commit')
  })
}

/** The order is committed. Then the till publishes, and goes on if that fails. */
async function payAndPublish(order: number): Promise<void> {
  if (!(await insert(pool, order))) return
  await part.checkpoint('between the commit and the publish')
  const hasNoReply = losesReply
  losesReply = false
  for (const transport of transports) {
    await publish(transport, order)
    if (hasNoReply) await publish(transport, order)
  }
}

async function publish(transport: Transport, order: number): Promise<void> {
  const data = Buffer.from(JSON.stringify({ order }))
  const whole = { subject: undefined, dataContentType: undefined, dataSchema: undefined, extensions: {}, attempt: 1 }
  const named = { id: randomUUID(), source: SOURCE, type: TYPE, time: new Date().toISOString(), key: `order:${order}` }
  const event: OutgoingEvent = { ...whole, ...named, data }
  await transport.send([event], new AbortController().signal).catch(() => {})
}

/** Whether it was not paid before. */
async function insert(db: pg.Pool | pg.ClientBase, order: number): Promise<boolean> {
  const { rowCount } = await db.query('insert into orders (id) values ($1) on conflict do nothing', [order])
  return rowCount === 1
}
