// From an outbox through real transports into an inbox, over a broker that is killed on the way.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { Inbox } from '../../src/inbox/index.ts'
import { withTransaction } from '../../src/index.ts'
import { byEvent, eventOf, inOneTransaction, NatsTransport } from '../../src/nats/index.ts'
import { deliver, destination, Outbox } from '../../src/outbox/index.ts'
import { SqsConsumer, SqsTransport } from '../../src/sqs/index.ts'
import { startSqs } from '../../tools/sqs.ts'
import { needsNatsCluster } from '../support/optional-program.ts'
import { until } from '../support/until.ts'
import { count } from '../support/worker.ts'
import { natsScene } from './scene.ts'

const needed = await needsNatsCluster()
const [KEYS, PER_KEY] = [20, 10]

test(
  'every event reaches both receivers once and in the order of its key, though NATS is killed',
  needed,
  async (t) => {
    const { db, lh, undo, nats, connection, stream, consumer } = await natsScene(t, { own: true })
    const sqs = await startSqs()
    undo.after(() => sqs.stop())
    const queueUrl = await sqs.createQueue(`q-${randomUUID()}.fifo`, { ContentBasedDeduplication: 'false' })
    await db.pool.query(
      'create table effect (at bigint generated always as identity, receiver text, key text, n integer)',
    )
    const backoff = { first: 50, max: 200 }
    const [toSqs, toNats] = [
      destination('by_sqs', { transport: 'sqs_fifo', backoff }),
      destination('by_nats', { transport: 'nats', backoff }),
    ]
    const outbox = new Outbox(lh, { source: '/shop' })
    await outbox.configure([toSqs, toNats])

    const handleFor = (receiver: string) =>
      inOneTransaction<string>(
        new Inbox(lh, { source: receiver }),
        (tx, message) => {
          const { key, data } = eventOf(message)
          const values = [receiver, key, JSON.parse(Buffer.from(data!).toString()).n]
          return tx.query('insert into effect (receiver, key, n) values ($1, $2, $3)', values)
        },
        byEvent,
      )
    const bySqs = new SqsConsumer<string>(sqs.client, { queueUrl, body: 'text', handle: handleFor('sqs'), signals: [] })
    const running = bySqs.run()
    undo.after(async () => {
      await bySqs.stop({ grace: 0 })
      await running
    })
    consumer<string>({ body: 'text', inOrder: true, visibility: '2s', handle: handleFor('nats') })

    const relay = outbox.relay(
      [
        deliver(toSqs, new SqsTransport(sqs.client, { queueUrl })),
        deliver(toNats, new NatsTransport(connection, { subject: `${stream}.all`, timeout: '500ms' })),
      ],
      { signals: [], poll: 50 },
    )
    const relaying = relay.run()
    undo.after(async () => {
      await relay.stop({ grace: 0 })
      await relaying
    })
    for (let n = 0; n < PER_KEY; n++) {
      const events = Array.from({ length: KEYS }, (_, key) => ({ type: 'paid', key: `order:${key}`, data: { n } }))
      await withTransaction(db.pool, (tx) => outbox.publishMany(tx, events))
    }
    await until('some have arrived by NATS', async () => (await count(db, `from effect where receiver = 'nats'`)) > 20)
    await nats!.servers[0]!.kill()
    await until('all have arrived by SQS', async () => (await count(db, `from effect where receiver = 'sqs'`)) === 200)
    await nats!.servers[0]!.start()
    await until('all have arrived by NATS', async () => (await count(db, `from effect where receiver = 'nats'`)) >= 200)
    const { rows } = await db.pool.query('select receiver, key, n from effect order by at')
    assert.equal(rows.length, 2 * KEYS * PER_KEY)
    const expected = Array.from({ length: PER_KEY }, (_, n) => n)
    for (const receiver of ['sqs', 'nats']) {
      for (let key = 0; key < KEYS; key++) {
        const got = rows.filter((row) => row.receiver === receiver && row.key === `order:${key}`).map(({ n }) => n)
        assert.deepEqual(got, expected, `${receiver} order:${key}`)
      }
    }
    assert.equal(await count(db, `from leasehold.jobs where status = 'dead_letter'`), 0)
  },
)
