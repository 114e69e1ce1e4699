// A consumer of NATS JetStream: the parts that differ from SQS, over a real server.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { z } from 'zod'
import { Inbox } from '../../src/inbox/index.ts'
import { kind } from '../../src/index.ts'
import { inOneTransaction, intoQueue } from '../../src/nats/index.ts'
import { askApi } from '../../src/nats/jetstream.ts'
import { gate } from '../support/gate.ts'
import { needsNats } from '../support/optional-program.ts'
import { count } from '../support/worker.ts'
import { createStream, natsScene, next, nextEvents, through } from './scene.ts'

const needed = await needsNats()
const DONE = { waiting: 0, held: 0 }

test('in one transaction: ten messages of one event have one effect, and all are acknowledged', needed, async (t) => {
  const { db, lh, send, consumer, left } = await natsScene(t)
  await db.pool.query('create table balance (amount integer); insert into balance values (0)')
  for (let n = 0; n < 10; n++) await send('paid', { payment: 'p-1' })
  const busy = consumer({
    body: z.object({ payment: z.string() }),
    handle: inOneTransaction<{ payment: string }>(
      new Inbox(lh, { source: 'payments' }),
      (tx) => tx.query('update balance set amount = amount + 1'),
      { key: ({ body }) => body.payment },
    ),
  })
  await Promise.all([nextEvents(busy, 'handled', 1), nextEvents(busy, 'already_handled', 9)])
  assert.equal((await db.pool.query('select amount from balance')).rows[0].amount, 1)
  assert.deepEqual(await left(), DONE)
})

test('into a queue: the key of a CloudEvent becomes the partition key, and its id the event id', needed, async (t) => {
  const { db, lh, send, consumer, left } = await natsScene(t)
  const mail = kind('mail')
  const busy = consumer({ handle: intoQueue(new Inbox(lh, { source: 'shop' }), mail) })
  const handled = next(busy, 'handled')
  await send('mail', { to: 'ann' }, { 'Nats-Msg-Id': 'e-1', 'ce-partitionkey': 'customer:7' })
  const { messageId, groupId } = await handled
  assert.deepEqual([messageId, groupId], ['e-1', 'customer:7'])
  assert.equal(await count(db, `from leasehold.jobs where kind = 'mail' and partition_key = 'customer:7'`), 1)
  assert.equal(await count(db, `from leasehold.inbox where source = 'shop' and event_id = 'e-1'`), 1)
  assert.deepEqual(await left(), DONE)
})

test('an acknowledgement that is lost makes NATS redeliver, and the event is already handled', needed, async (t) => {
  const { db, lh, connection, send, consumer, left } = await natsScene(t)
  await db.pool.query('create table effect ()')
  const acknowledged: string[] = []
  const faulty = through(connection, async (subject, body, go) => {
    if (body !== '+ACK' || acknowledged.push(subject) > 1) return go()
    // In place of the acknowledgement, the timeout of its delivery.
    await connection.request(subject, '-NAK')
    throw new Error('the reply is lost, and so was the request')
  })
  const work = inOneTransaction(new Inbox(lh, { source: 's' }), (tx) => tx.query('insert into effect default values'))
  const busy = consumer({ handle: work }, faulty)
  const again = next(busy, 'already_handled')
  await send('x', {})
  assert.equal((await again).receiveCount, 2)
  assert.equal(await count(db, 'from effect'), 1)
  assert.deepEqual(await left(), DONE)
})

test('a handler that outlives ack_wait several times keeps its message', needed, async (t) => {
  const { send, consumer, left } = await natsScene(t)
  const enough = gate()
  const options = { visibility: '1s', handle: () => enough.opened } as const
  const [one, two] = [consumer(options), consumer(options)]
  const extended = Promise.race([nextEvents(one, 'extended', 6), nextEvents(two, 'extended', 6)])
  const handled = Promise.race([next(one, 'handled'), next(two, 'handled')])
  await send('x', {})
  await extended
  assert.deepEqual(await left(), { waiting: 0, held: 1 }, 'an extension acknowledges nothing')
  enough.open()
  assert.equal((await handled).receiveCount, 1)
  assert.equal(one.counts().received + two.counts().received, 1)
  assert.deepEqual(await left(), DONE)
})

test('a message whose handler throws is redelivered after its backoff', needed, async (t) => {
  const { send, consumer, left } = await natsScene(t)
  const busy = consumer({
    backoff: { first: '1s', max: '1s' },
    handle: ({ receiveCount }) => {
      if (receiveCount === 1) throw new Error('not yet')
    },
  })
  const [returned, handled] = [next(busy, 'returned'), next(busy, 'handled')]
  await send('x', {})
  assert.deepEqual([(await returned).reason, (await returned).confirmed], ['threw', true])
  assert.equal((await handled).receiveCount, 2)
  assert.deepEqual(await left(), DONE)
})

test(
  'poison goes to the dead-letter subject, byte by byte, with its headers and its reason, once',
  needed,
  async (t) => {
    const { connection, stream, send, consumer, left } = await natsScene(t)
    const dead = `${stream}-dead`
    await createStream(connection, { name: dead, subjects: [dead] })
    t.after(() => connection.isClosed() || askApi(connection, `STREAM.DELETE.${dead}`, undefined, 5_000))
    let stored = 0
    // The reply to the first one is lost.
    const faulty = through(connection, async (subject, _, go) => {
      const answer = await go()
      if (subject === dead && ++stored === 1) throw new Error('the reply is lost')
      return answer
    })
    const busy = consumer({ deadLetterSubject: dead, backoff: { first: '1s', max: '1s' }, handle: () => {} }, faulty)
    const buried = next(busy, 'dead_letter')
    await send('x', '{ half of it \u{fffd}', { 'ce-type': 'shop.paid', 'Nats-Msg-Id': 'e-1' })
    assert.equal((await buried).reason, 'not_json')
    type Stored = { message: { data: string; hdrs: string } }
    const { message } = await askApi<Stored>(connection, `STREAM.MSG.GET.${dead}`, { seq: 1 }, 5_000)
    assert.equal(Buffer.from(message.data, 'base64').toString(), '{ half of it \u{fffd}')
    const head = Buffer.from(message.hdrs, 'base64').toString()
    assert.match(head, /ce-type: shop\.paid\r\n/)
    assert.match(head, /Leasehold-Reason: not_json\r\n/)
    type Info = { state: { messages: number } }
    const { state } = await askApi<Info>(connection, `STREAM.INFO.${dead}`, undefined, 5_000)
    assert.deepEqual([stored, state.messages], [2, 1])
    assert.deepEqual(await left(), DONE)
  },
)

test('a dead letter that no stream stores is not lost: its message is returned', needed, async (t) => {
  const { stream, send, consumer, left } = await natsScene(t)
  const busy = consumer({ deadLetterSubject: `${stream}-nowhere`, handle: () => {} })
  const returned = next(busy, 'returned')
  await send('x', '{')
  assert.equal((await returned).reason, 'dead_letter_not_sent')
  assert.deepEqual(await left(), { waiting: 0, held: 1 })
})

test('in order: a failed message goes first again, however many consumers there are', needed, async (t) => {
  const { send, consumer, left } = await natsScene(t)
  const done: number[] = []
  const last = gate()
  const options = {
    inOrder: true,
    backoff: { first: '1s', max: '1s' },
    handle: ({ body, receiveCount }: { body: unknown; receiveCount: number }) => {
      const { n } = body as { n: number }
      if (n === 2 && receiveCount === 1) throw new Error('not yet')
      done.push(n)
      if (n === 5) last.open()
    },
  } as const
  for (let n = 1; n <= 5; n++) await send('x', { n })
  const [one, two] = [consumer(options), consumer(options)]
  const handled = Promise.race([nextEvents(one, 'handled', 5), nextEvents(two, 'handled', 5), last.opened])
  await handled
  assert.deepEqual(done, [1, 2, 3, 4, 5])
  await Promise.all([one.stop(), two.stop()])
  assert.equal(one.counts().problem + two.counts().problem, 0)
  assert.deepEqual(await left(), DONE)
})

test('a consumer that stops returns what it holds, and another one gets it at once', needed, async (t) => {
  const { send, consumer, left } = await natsScene(t)
  const started = gate()
  const stuck = consumer({
    visibility: '1h',
    handle: async ({ signal }) => {
      started.open()
      await new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
    },
  })
  await send('x', {})
  await started.opened
  await stuck.stop({ grace: 0 })
  const handled = next(consumer({ visibility: '1h', handle: () => {} }), 'handled')
  assert.equal((await handled).receiveCount, 2)
  assert.deepEqual(await left(), DONE)
})

for (const [what, config, says] of [
  ['another ack_wait', { ack_wait: 5e9 }, /ack_wait is 5000 ms, not 30000 ms/],
  ['no acknowledgements', { ack_policy: 'none' }, /ack_policy is none/],
  ['a limit of deliveries', { max_deliver: 3 }, /max_deliver is 3, after which a message is lost/],
  ['more than one message held', { max_ack_pending: 100 }, /max_ack_pending is 100; for order it must be 1/],
  ['another filter', { filter_subject: 'y' }, /filter_subject is/],
] as const) {
  test(`an existing consumer with ${what} is refused`, needed, async (t) => {
    const { connection, stream, consumer } = await natsScene(t)
    const given = { durable_name: 'c', ack_policy: 'explicit', ack_wait: 30e9, max_ack_pending: 1, ...config }
    const filter = 'filter_subject' in config ? { filter_subject: `${stream}.y` } : {}
    const body = { stream_name: stream, config: { ...given, ...filter } }
    await askApi(connection, `CONSUMER.DURABLE.CREATE.${stream}.c`, body, 5_000)
    const made = consumer({
      inOrder: true,
      filterSubject: 'filter_subject' in config ? `${stream}.x` : undefined,
      handle: () => {},
    })
    await assert.rejects(made.run(), (error: Error & { code?: unknown }) => {
      assert.equal(error.code, 'INVALID_OPTION')
      assert.match(error.message, says)
      return true
    })
  })
}

test('a stream that does not exist is refused, and so is a connection that is closed', needed, async (t) => {
  const { consumer, connect } = await natsScene(t)
  await assert.rejects(consumer({ stream: 'nothing', handle: () => {} }).run(), /there is no stream nothing/)
  const own = await connect()
  const busy = consumer({ handle: () => {} }, own)
  const running = busy.run()
  await own.close()
  await assert.rejects(running, /it is closed/)
})
