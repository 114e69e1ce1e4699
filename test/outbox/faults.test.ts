// Transports that fail in unusual ways, events that cannot be sent, and relays that cannot work.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DestinationUnavailable, deliver, destination, inProcess } from '../../src/outbox/index.ts'
import { movableTimers } from '../support/movable-clock.ts'
import { until } from '../support/until.ts'
import { codeOf, count, statements } from '../support/worker.ts'
import { ACKNOWLEDGED, numberOf, outboxScene, scripted } from './scene.ts'

test('a transport that throws at one event sends the others', async (t) => {
  const { publishMany, destination, relay } = await outboxScene(t)
  const billing = await destination('billing', { maxAttempts: 2 })
  await publishMany(Array.from({ length: 10 }, (_, n) => ({ key: `k${n}`, data: { n } })))
  const transport = scripted((events) => {
    if (events.some((event) => numberOf(event) === 7)) throw new TypeError('cannot serialize')
    return ACKNOWLEDGED
  })
  const { worker } = relay([deliver(billing, transport)])
  await until('all have ended', () => worker.tally.completed === 9 && worker.tally.deadLetters === 1)
})

test('a batch waits half a minute for a destination that is away, and then goes back with no attempt spent', async (t) => {
  const clock = movableTimers(t)
  const { db, publishMany, destination, relay } = await outboxScene(t)
  const billing = await destination('billing', { maxAttempts: 1 })
  await publishMany(Array.from({ length: 4 }, (_, n) => ({ key: `k${n}`, data: { n } })))
  let isAway = true
  const transport = scripted(
    () => {
      if (isAway) throw new DestinationUnavailable('connection refused')
      return ACKNOWLEDGED
    },
    { batchBytes: 10 },
  )
  const { worker } = relay([deliver(billing, transport, { concurrency: 1 })], { lease: '10m' })
  await until('it was tried', () => transport.batches.length > 0)
  assert.equal(worker.tally.snoozed, 0)
  clock.pass(31_000)
  await until('all have gone back', () => worker.tally.snoozed === 4)
  const tries = new Set(transport.numbers())
  assert.equal(tries.size, 4, 'each was tried, and those behind the first did not wait')
  assert.equal(await count(db, 'from leasehold.job where attempts > 0'), 0)
  isAway = false
  await db.clock.advance('1 minute')
  await until('all are sent', () => worker.tally.completed === 4)
})

test('a transport that does not answer for each event loses none', async (t) => {
  const { publishMany, destination, relay } = await outboxScene(t)
  const billing = await destination('billing')
  await publishMany(Array.from({ length: 5 }, (_, n) => ({ key: `k${n}`, data: { n } })))
  const transport = scripted((events) => (events.length > 1 ? [ACKNOWLEDGED] : ACKNOWLEDGED))
  const { worker } = relay([deliver(billing, transport)])
  await until('all are sent', () => worker.tally.completed === 5)
  assert.deepEqual(
    transport.batches.map(({ length }) => length),
    [5, 1, 1, 1, 1, 1],
  )
})

test('batches keep to the limits of the transport, and a larger event is refused for good', async (t) => {
  const { lh, publishMany, destination, relay } = await outboxScene(t)
  const billing = await destination('billing')
  await publishMany([...Array.from({ length: 7 }, () => ({ data: Buffer.alloc(40) })), { data: Buffer.alloc(101) }])
  const transport = scripted(() => ACKNOWLEDGED, { batchEvents: 5, batchBytes: 100, eventBytes: 100 })
  const { worker } = relay([deliver(billing, transport)])
  await until('all have ended', () => worker.tally.completed === 7 && worker.tally.deadLetters === 1)
  for (const batch of transport.batches) assert.ok(batch.length <= 2, `${batch.length} of 40 bytes`)
  const [letter] = await lh.list({ status: 'dead_letter' })
  assert.match(letter!.lastError!.message, /the event has 101 bytes, and in_process takes at most 100/)
})

test('large events are loaded a few at a time', async (t) => {
  const { publish, destination, relay, undo } = await outboxScene(t)
  const billing = await destination('billing')
  for (let n = 0; n < 20; n++) await publish({ data: Buffer.alloc(2 ** 20) })
  const names = statements(undo)
  const transport = scripted()
  const { worker } = relay([deliver(billing, transport, { concurrency: 1 })])
  await until('all are sent', () => worker.tally.completed === 20)
  assert.equal(names.filter((name) => name === 'event.load').length, 2)
})

test('an event that is gone is a dead letter, and the others are sent', async (t) => {
  const { db, lh, publishMany, destination, relay } = await outboxScene(t)
  const billing = await destination('billing')
  const [gone] = await publishMany([{ data: { n: 1 } }, { data: { n: 2 } }])
  await db.pool.query('delete from leasehold.event where id = $1', [gone])
  const transport = scripted()
  const { worker } = relay([deliver(billing, transport)])
  await until('both have ended', () => worker.tally.completed === 1 && worker.tally.deadLetters === 1)
  assert.deepEqual(transport.numbers(), [2])
  assert.match((await lh.list({ status: 'dead_letter' }))[0]!.lastError!.message, /past its retention/)
})

test('a relay refuses a destination that is not configured, and one with another transport', async (t) => {
  const { outbox, destination: configured } = await outboxScene(t)
  const unknown = destination('unknown', { transport: 'in_process' })
  const run = (deliveries: ReturnType<typeof deliver>[]) => outbox.relay(deliveries, { signals: [] }).run()
  const transport = scripted()
  assert.equal(await codeOf(() => run([deliver(unknown, transport)])), 'INVALID_OPTION')
  assert.ok(transport.closed())
  await configured('billing', { transport: 'sqs' })
  const stale = destination('billing', { transport: 'in_process' })
  assert.equal(await codeOf(() => run([deliver(stale, scripted())])), 'INVALID_OPTION')
  for (const call of [
    () => deliver(destination('a', { transport: 'sqs' }), scripted()),
    () => deliver('a' as never, scripted()),
    () => deliver(unknown, {} as never),
    () => deliver(unknown, scripted(), { concurrency: 0 }),
    () => deliver(unknown, scripted(), { size: 101 }),
    () => outbox.relay([]),
    () => outbox.relay([deliver(unknown, scripted())], { concurrency: 3 } as never),
    () => inProcess(undefined as never),
  ]) {
    assert.equal(await codeOf(call), 'INVALID_OPTION', String(call))
  }
})
