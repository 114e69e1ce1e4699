// How the transport to NATS awaits the acknowledgements of a batch, and what ends the wait.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type { Msg, NatsConnection } from '@nats-io/transport-node'
import { NatsTransport } from '../../src/nats/index.ts'
import { DestinationUnavailable, type OutgoingEvent } from '../../src/outbox/transport.ts'
import { connectTo, startNats } from '../../tools/nats.ts'
import { needsNats } from '../support/optional-program.ts'
import { inTime, lastFirst } from '../support/worker.ts'
import { event } from './conformance.ts'
import { createStream } from './scene.ts'

const needed = await needsNats()
/** A test that waits for it fails. */
const timeout = '10m'

/** Two accounts: `all` may do everything, `relay` may publish below `orders` and to the API, and subscribe below `_RELAY`. */
async function servers(t: TestContext) {
  const undo = lastFirst(t)
  const config = `authorization { users = [
    { user: all, password: all },
    { user: relay, password: relay, permissions: { publish: ["orders.>", "$JS.API.>"], subscribe: "_RELAY.>" } }
  ] }`
  const nats = await startNats({ config })
  undo.after(() => nats.stop())
  const connect = async (user: string, options = {}) => {
    const connection = await connectTo(nats.urls, { user, pass: user, ...options })
    undo.after(() => connection.close())
    return connection
  }
  const connection = await connect('all')
  await createStream(connection, { name: 'orders', subjects: ['orders.>'] })
  return { connection, connect }
}

function send(transport: NatsTransport, events: OutgoingEvent[], signal = new AbortController().signal) {
  return inTime(transport.send(events, signal), 'the transport has not answered')
}

/** Subscriptions that the client holds. */
function heldBy(connection: NatsConnection): number {
  return (connection as unknown as { protocol: { subscriptions: { size(): number } } }).protocol.subscriptions.size()
}

/** A service on the subject, which answers as it is asked to. Resolves with its first message. */
function service(connection: NatsConnection, subject: string, answer: (msg: Msg) => void = () => {}): Promise<Msg> {
  return new Promise((resolve) => {
    const callback = (_: unknown, msg: Msg) => {
      resolve(msg)
      answer(msg)
    }
    connection.subscribe(subject, { callback })
  })
}

const unavailable = (says: RegExp) => (error: Error) => {
  assert.ok(error instanceof DestinationUnavailable, String(error))
  assert.match(error.message, says)
  return true
}

test(
  'replies go below the inbox prefix of the connection: the account may subscribe nowhere else',
  needed,
  async (t) => {
    const { connect } = await servers(t)
    const events = Array.from({ length: 3 }, () => event())
    const allowed = await connect('relay', { inboxPrefix: '_RELAY' })
    const acknowledged = await send(new NatsTransport(allowed, { subject: 'orders.paid', timeout }), events)
    assert.deepEqual(
      acknowledged,
      events.map(() => ({ outcome: 'acknowledged' })),
    )
    const transport = new NatsTransport(await connect('relay'), { subject: 'orders.paid', timeout })
    await assert.rejects(send(transport, events), unavailable(/Permissions Violation for Subscription/))
  },
)

test('a subject that the account may not publish to fails its own events, at once', needed, async (t) => {
  const { connect } = await servers(t)
  const connection = await connect('relay', { inboxPrefix: '_RELAY' })
  const subject = ({ type }: OutgoingEvent) => (type === 'secret' ? 'secrets.paid' : 'orders.paid')
  const transport = new NatsTransport(connection, { subject, timeout })
  const [good, denied, other] = await send(transport, [event(), event({ type: 'secret' }), event()])
  assert.deepEqual([good, other], [{ outcome: 'acknowledged' }, { outcome: 'acknowledged' }])
  assert.equal(denied!.outcome, 'refused_for_now')
  assert.match((denied as { reason: string }).reason, /Permissions Violation for Publish to .*secrets\.paid/)
  await assert.rejects(send(transport, [event({ type: 'secret' })]), unavailable(/Permissions Violation for Publish/))
})

test('a connection that is closed while acknowledgements are awaited ends the wait', needed, async (t) => {
  const { connection, connect } = await servers(t)
  const arrived = service(connection, 'silent')
  await connection.flush()
  const closing = await connect('all')
  const transport = new NatsTransport(closing, { subject: 'silent', timeout })
  const sending = assert.rejects(send(transport, [event(), event()]), unavailable(/the connection is closed/))
  await arrived
  await closing.close()
  await sending
  await assert.rejects(send(transport, [event()]), unavailable(/the connection is closed/))
})

test('an abort ends the wait, and no batch leaves a subscription behind', needed, async (t) => {
  const { connection } = await servers(t)
  const arrived = service(connection, 'silent')
  const before = heldBy(connection)
  const stop = new AbortController()
  const transport = new NatsTransport(connection, { subject: 'silent', timeout })
  const sending = assert.rejects(send(transport, [event()], stop.signal), unavailable(/the relay stops/))
  await arrived
  assert.equal(heldBy(connection), before + 1)
  stop.abort()
  await sending
  assert.equal(heldBy(connection), before)
  const stored = new NatsTransport(connection, { subject: 'orders.paid', timeout })
  for (let batch = 0; batch < 5; batch++) await send(stored, [event(), event()])
  assert.equal(heldBy(connection), before)
})

test('events that are all refused here are answered for, and nothing is sent', needed, async (t) => {
  const { connection } = await servers(t)
  const before = connection.stats().outMsgs
  const spaces = new NatsTransport(connection, { subject: () => 'no subject', timeout })
  const [first, second] = await send(spaces, [event(), event()])
  assert.deepEqual([first!.outcome, second!.outcome], ['refused_for_good', 'refused_for_good'])
  const throwing = new NatsTransport(connection, {
    subject: () => {
      throw new Error('no subject today')
    },
  })
  const [refused] = await send(throwing, [event()])
  assert.deepEqual(refused, { outcome: 'refused_for_now', reason: 'Error: no subject today' })
  assert.equal(connection.stats().outMsgs, before)
  assert.deepEqual(await send(spaces, []), [])
})

test('a reply for a place that no message has, and a second reply, change nothing', needed, async (t) => {
  const { connection } = await servers(t)
  const receipt = JSON.stringify({ stream: 'orders', seq: 1 })
  let answered = 0
  void service(connection, 'strange', ({ reply = '' }) => {
    const inbox = reply.slice(0, reply.lastIndexOf('.'))
    for (const place of ['99', 'x', '-1', '0.5']) connection.publish(`${inbox}.${place}`, receipt)
    for (let copy = 0; copy < 2; copy++) connection.publish(`${inbox}.0`, receipt)
    if (++answered === 2) connection.publish(`${inbox}.1`, JSON.stringify({ error: { code: 400, description: 'no' } }))
  })
  const transport = new NatsTransport(connection, { subject: 'strange', timeout })
  const [first, second] = await send(transport, [event(), event()])
  assert.deepEqual(first, { outcome: 'acknowledged' })
  assert.equal(second!.outcome, 'refused_for_now')
})
