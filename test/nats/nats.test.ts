// What needs no server: the client that is missing, invalid options, and the position in a receipt.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { natsClient } from '../../src/nats/client.ts'
import { NatsConsumer } from '../../src/nats/index.ts'
import { positionOf } from '../../src/nats/jetstream.ts'

test('a client that is not installed is named, with the command that installs it', async () => {
  const cause = Object.assign(new Error("Cannot find package '@nats-io/transport-node' imported from …"), {
    code: 'ERR_MODULE_NOT_FOUND',
  })
  await assert.rejects(
    natsClient(() => Promise.reject(cause)),
    (error: Error & { code?: unknown }) => {
      assert.equal(error.code, 'INVALID_OPTION')
      assert.match(error.message, /leasehold\/nats .* npm install @nats-io\/transport-node/)
      assert.equal(error.cause, cause)
      return true
    },
  )
  const other = new Error('a fault of the client itself')
  await assert.rejects(
    natsClient(() => Promise.reject(other)),
    other,
  )
  assert.equal(typeof (await natsClient()).headers, 'function', 'asked again, it is loaded')
})

const connection = { request() {}, subscribe() {} }
const good = { stream: 'orders', consumer: 'billing', handle: () => {} }

for (const [what, given, options, says] of [
  ['no connection', undefined, good, /NatsConsumer\.connection .* await connect\(/],
  ['a URL for a connection', 'nats://localhost', good, /NatsConsumer\.connection/],
  ['no options', connection, undefined, /NatsConsumer .* object of options/],
  ['no stream', connection, { ...good, stream: undefined }, /NatsConsumer\.stream/],
  ['a stream with a dot', connection, { ...good, stream: 'a.b' }, /NatsConsumer\.stream .* letters, digits/],
  ['a consumer with a wildcard', connection, { ...good, consumer: '>' }, /NatsConsumer\.consumer/],
  ['no handler', connection, { ...good, handle: undefined }, /NatsConsumer\.handle/],
  ['half a second', connection, { ...good, visibility: '500ms' }, /NatsConsumer\.visibility .* whole seconds/],
  ['a wildcard for dead letters', connection, { ...good, deadLetterSubject: 'dead.>' }, /deadLetterSubject/],
  ['an empty word in a filter', connection, { ...good, filterSubject: 'a..b' }, /filterSubject .* orders\.>/],
  ['many at a time, in order', connection, { ...good, inOrder: true, concurrency: 5 }, /NatsConsumer\.concurrency/],
  ['an option of SQS', connection, { ...good, queueUrl: 'x' }, /NatsConsumer\.queueUrl .* no such option/],
] as const) {
  test(`refused when it is made: ${what}`, () => {
    assert.throws(
      () => new NatsConsumer(given as never, options as never),
      (error: Error & { code?: unknown }) => {
        assert.equal(error.code, 'INVALID_OPTION')
        assert.match(error.message, says)
        return true
      },
    )
  })
}

test('valid options are accepted', () => {
  new NatsConsumer(connection as never, good)
  new NatsConsumer(connection as never, { ...good, inOrder: true, filterSubject: 'orders.*.>', visibility: '1m' })
})

test('the position in a receipt is read with and without a domain', () => {
  const position = { stream: 'orders', deliveries: 3, sequence: 17, storedAt: '1794961262955496060' }
  const tail = 'orders.billing.3.17.20.1794961262955496060.5'
  assert.deepEqual(positionOf(`$JS.ACK.${tail}`), position)
  assert.deepEqual(positionOf(`$JS.ACK.hub.AccountHash.${tail}`), position)
  assert.deepEqual(positionOf(`$JS.ACK.hub.AccountHash.${tail}.token`), position)
  for (const other of ['', '_INBOX.abc', '$JS.ACK.too.short']) assert.equal(positionOf(other), undefined)
})
