// One event over two transports, to one receiver: handled once.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { ReceiveMessageCommand } from '@aws-sdk/client-sqs'
import { headers } from '@nats-io/transport-node'
import { Inbox } from '../../src/inbox/index.ts'
import { kind } from '../../src/index.ts'
import { byEvent, eventOf, inOneTransaction, intoQueues, NatsTransport } from '../../src/nats/index.ts'
import { SqsConsumer, SqsTransport } from '../../src/sqs/index.ts'
import { startSqs } from '../../tools/sqs.ts'
import { needsNats } from '../support/optional-program.ts'
import { count } from '../support/worker.ts'
import { event } from './conformance.ts'
import { natsScene, next, through } from './scene.ts'

const needed = await needsNats()

test('an event that arrives by SQS and by NATS becomes one job, in order of its key', needed, async (t) => {
  const { db, lh, undo, connection, stream, consumer } = await natsScene(t)
  const sqs = await startSqs()
  undo.after(() => sqs.stop())
  const queueUrl = await sqs.createQueue(`q-${randomUUID()}.fifo`, { ContentBasedDeduplication: 'false' })
  const paid = kind<{ order: number }>('shop.order.paid')
  const handle = intoQueues<string>(new Inbox(lh, { source: 'shop' }), {
    ...byEvent,
    kinds: [paid],
    kindOf: (message) => eventOf(message).type,
    input: (message) => JSON.parse(Buffer.from(eventOf(message).data ?? []).toString()),
  })
  const bySqs = new SqsConsumer<string>(sqs.client, { queueUrl, body: 'text', handle, signals: [] })
  const running = bySqs.run()
  undo.after(async () => {
    await bySqs.stop({ grace: 0 })
    await running
  })
  const byNats = consumer<string>({ body: 'text', handle })
  const handled = Promise.race([next(byNats, 'handled'), new Promise((resolve) => bySqs.on('handled', resolve))])
  const duplicate = Promise.race([
    next(byNats, 'already_handled'),
    new Promise((resolve) => bySqs.on('already_handled', resolve)),
  ])
  const sent = event({ key: 'order:9182' })
  const { signal } = new AbortController()
  for (const transport of [
    new SqsTransport(sqs.client, { queueUrl }),
    new NatsTransport(connection, { subject: `${stream}.paid` }),
  ]) {
    assert.deepEqual(await transport.send([sent], signal), [{ outcome: 'acknowledged' }])
  }
  await Promise.all([handled, duplicate])
  const jobs = `from leasehold.jobs where kind = 'shop.order.paid' and partition_key = 'order:9182'`
  assert.equal(await count(db, `${jobs} and payload = '{"order": 9182}'`), 1)
  assert.equal(await count(db, `from leasehold.inbox where event_id = $1`, [`/shop ${sent.id}`]), 1)
})

test('FIFO: the key is the group, so the next event of a key waits for the one before', async (t) => {
  const sqs = await startSqs()
  t.after(() => sqs.stop())
  const QueueUrl = await sqs.createQueue(`q-${randomUUID()}.fifo`, { ContentBasedDeduplication: 'false' })
  const transport = new SqsTransport(sqs.client, { queueUrl: QueueUrl })
  const { signal } = new AbortController()
  for (const key of ['order:9182', 'order:9182', 'ä key that SQS would refuse'])
    await transport.send([event({ key })], signal)
  const asked = { QueueUrl, MaxNumberOfMessages: 10, MessageSystemAttributeNames: ['MessageGroupId' as const] }
  const { Messages = [] } = await sqs.client.send(new ReceiveMessageCommand(asked))
  const groups = Messages.map(({ Attributes }) => Attributes!.MessageGroupId!)
  assert.equal(groups.length, 2, 'one of each group, until it is deleted')
  assert.equal(groups[0], 'order:9182')
  assert.match(groups[1]!, /^[0-9a-f]{64}$/)
})

test('an event id that a sender reuses with other data is a dead letter, whatever its envelope', needed, async (t) => {
  const { lh, connection, stream, consumer } = await natsScene(t)
  const handle = inOneTransaction<string>(new Inbox(lh, { source: 'shop' }), () => {}, byEvent)
  const busy = consumer<string>({ body: 'text', handle })
  const transport = new NatsTransport(connection, { subject: `${stream}.paid` })
  const first = event()
  const [handled, repeated, refused] = [next(busy, 'handled'), next(busy, 'already_handled'), next(busy, 'returned')]
  const { signal } = new AbortController()
  await transport.send([first], signal)
  await handled
  // Past the stream's own window, which would drop both.
  const anew = through(connection, (subject, body, send) => {
    if (subject.startsWith('$JS')) return send()
    const head = headers()
    for (const [name, value] of Object.entries({ specversion: '1.0', id: first.id, source: first.source, type: 'x' })) {
      head.set(`ce-${name}`, value)
    }
    return connection.request(subject, body, { timeout: 5_000, headers: head })
  })
  const again = new NatsTransport(anew, { subject: `${stream}.paid` })
  await again.send([first], signal)
  await repeated
  await again.send([{ ...first, data: Buffer.from('another') }], signal)
  assert.equal((await refused).reason, 'key_conflict')
})
