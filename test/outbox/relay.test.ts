// The relay: acknowledged before completed, in order per key, and one destination never delays another.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Fatal, RetryAfter } from '../../src/index.ts'
import { DestinationUnavailable, deliver, inProcess, type OutgoingEvent } from '../../src/outbox/index.ts'
import { gate } from '../support/gate.ts'
import { nothingLeft } from '../support/order.ts'
import { countByStatus } from '../support/queue.ts'
import { until } from '../support/until.ts'
import { count, next, nothingHeld, statements } from '../support/worker.ts'
import { ACKNOWLEDGED, numberOf, outboxScene, scripted } from './scene.ts'

test('an event reaches its destination with its attributes and its bytes', async (t) => {
  const { publish, destination, relay } = await outboxScene(t)
  const billing = await destination('billing')
  const data = Buffer.from(Array.from({ length: 256 }, (_, n) => n))
  const time = new Date('2026-01-02T03:04:05.678Z')
  const id = await publish({ data, time, key: 'k', subject: 's', dataSchema: 'urn:x', extensions: { a: 'b', n: 1 } })
  const transport = scripted()
  const { worker } = relay([deliver(billing, transport)])
  await until('it is sent', () => worker.tally.completed === 1)
  assert.deepEqual(transport.batches, [
    [
      {
        id,
        source: '/test',
        type: 'order.paid',
        subject: 's',
        time: '2026-01-02T03:04:05.678000Z',
        dataContentType: 'application/octet-stream',
        dataSchema: 'urn:x',
        extensions: { a: 'b', n: 1 },
        key: 'k',
        data,
        attempt: 1,
      } satisfies OutgoingEvent,
    ],
  ])
})

test('a job is completed after the acknowledgement, and an event whose sender stopped is sent again with its id', async (t) => {
  const { db, publish, destination, relay } = await outboxScene(t)
  const billing = await destination('billing')
  const id = await publish({ key: 'k' })
  const arrived = gate()
  // The broker has it, and its answer never comes.
  const first = scripted(() => {
    arrived.open()
    return new Promise(() => {})
  })
  const lost = relay([deliver(billing, first)])
  await arrived.opened
  assert.deepEqual(await countByStatus(db), { processing: 1 })
  await lost.stop({ grace: 0 })
  assert.deepEqual(await countByStatus(db), { pending: 1 })
  const second = scripted()
  const { worker } = relay([deliver(billing, second)])
  await until('it is sent', () => worker.tally.completed === 1)
  assert.deepEqual(
    [first, second].map(({ batches }) => batches.flat().map((event) => event.id)),
    [[id], [id]],
  )
})

test('an event is sent after its key’s previous one was acknowledged, and other keys go on meanwhile', async (t) => {
  const { publishMany, destination, relay } = await outboxScene(t)
  const billing = await destination('billing')
  const events = Array.from({ length: 40 }, (_, n) => ({ key: `k${n % 4}`, data: { n } }))
  await publishMany(events)
  const held = gate()
  const inFlight = new Set<string>()
  const order = new Map<string, number[]>()
  const transport = scripted(async (batch) => {
    for (const event of batch) {
      assert.ok(!inFlight.has(event.key), `${event.key} is on its way already`)
      inFlight.add(event.key)
    }
    if (batch.some((event) => numberOf(event) === 4)) await held.opened
    for (const event of batch) {
      inFlight.delete(event.key)
      order.set(event.key, [...(order.get(event.key) ?? []), numberOf(event)])
    }
    return ACKNOWLEDGED
  })
  const { worker } = relay([deliver(billing, transport, { size: 1 })])
  await until('the others are sent', () => worker.tally.completed === 31)
  assert.deepEqual(order.get('k0'), [0])
  held.open()
  await until('all are sent', () => worker.tally.completed === 40)
  for (const [key, sent] of order) {
    const own = events.filter((event) => event.key === key).map(({ data }) => data.n)
    assert.deepEqual(sent, own, key)
  }
})

test('a batch has events of many keys, loaded by one statement', async (t) => {
  const { publishMany, destination, relay, undo } = await outboxScene(t)
  const billing = await destination('billing')
  await publishMany(Array.from({ length: 60 }, (_, n) => ({ key: `k${n}`, data: { n } })))
  const names = statements(undo)
  const transport = scripted()
  const { worker } = relay([deliver(billing, transport)])
  await until('all are sent', () => worker.tally.completed === 60)
  assert.ok(transport.batches.length <= 3, `${transport.batches.length} batches`)
  assert.equal(names.filter((name) => name === 'event.load').length, transport.batches.length)
})

for (const [policy, after, status] of [
  ['block', [0, 1, 10], { completed: 2, dead_letter: 1, pending: 1 }],
  ['skip', [0, 1, 2, 10], { completed: 3, dead_letter: 1 }],
  ['park', [0, 1, 10], { completed: 2, dead_letter: 2 }],
] as const) {
  test(`an event that is refused for good delays only its own key: ${policy}`, async (t) => {
    const { db, lh, publishMany, destination, relay } = await outboxScene(t)
    const billing = await destination('billing', { onDeadLetter: policy })
    await publishMany([0, 1, 2].map((n) => ({ key: 'k', data: { n } })))
    await publishMany([{ key: 'other', data: { n: 10 } }])
    const transport = scripted((events) =>
      events.map((event) =>
        numberOf(event) === 1 ? { outcome: 'refused_for_good', reason: 'no such topic' } : ACKNOWLEDGED,
      ),
    )
    relay([deliver(billing, transport)])
    await until('it has settled', async () => {
      const now = await countByStatus(db)
      return Object.entries(status).every(([name, jobs]) => now[name as 'completed'] === jobs)
    })
    assert.deepEqual(
      transport.numbers().sort((a, b) => a - b),
      [...after],
    )
    const letters = await lh.list({ status: 'dead_letter' })
    const refused = letters.find(({ reason }) => reason === 'fatal')!
    assert.equal(refused.lastError!.message, 'no such topic')
  })
}

test('an event that is refused for now is sent again, and becomes a dead letter with the reason in the end', async (t) => {
  const { lh, publish, destination, relay } = await outboxScene(t)
  const billing = await destination('billing', { maxAttempts: 3 })
  await publish({ key: 'k' })
  const transport = scripted(() => ({ outcome: 'refused_for_now', reason: 'throttled' }))
  const { worker } = relay([deliver(billing, transport)])
  await until('it is a dead letter', () => worker.tally.deadLetters === 1)
  assert.deepEqual(
    transport.batches.flat().map(({ attempt }) => attempt),
    [1, 2, 3],
  )
  const [letter] = await lh.list({ status: 'dead_letter' })
  assert.deepEqual([letter!.reason, letter!.lastError!.message], ['attempts_exhausted', 'throttled'])
})

test('an outage of a destination spends no attempt, is logged once, and delays no other destination', async (t) => {
  const { db, log, publishMany, destination, relay } = await outboxScene(t)
  const [dead, alive] = [await destination('dead', { maxAttempts: 1 }), await destination('alive')]
  await publishMany(Array.from({ length: 300 }, (_, n) => ({ key: `k${n}`, data: { n } })))
  let isAway = true
  const away = scripted(() => {
    if (isAway) throw new DestinationUnavailable('connection refused to nats://user:secret@host')
    return ACKNOWLEDGED
  })
  const { worker } = relay([deliver(dead, away, { concurrency: 1, size: 10 }), deliver(alive, scripted())])
  await until(
    'the other has all',
    async () => (await count(db, "from leasehold.archive where queue = 'outbox:alive'")) === 300,
  )
  await until('it was tried again', () => away.batches.length > 1)
  assert.ok(
    (await count(db, "from leasehold.job where queue = 'outbox:dead' and claim_id is not null")) <= 20,
    'claims no more than it can send',
  )
  isAway = false
  await until('all are sent', () => worker.tally.completed === 600)
  assert.equal(await count(db, 'from leasehold.archive where attempts <> 1'), 0)
  const lines = log.filter(({ message }) => message.includes('destination')).map(({ message }) => message)
  assert.deepEqual(lines, [
    'destination "dead" is unavailable; its events wait',
    'destination "dead" is available again',
  ])
  assert.equal(worker.tally.snoozed, 0)
})

test('an event that is cancelled before its turn in a batch is not sent', async (t) => {
  const { lh, publishMany, destination, relay } = await outboxScene(t)
  const billing = await destination('billing')
  await publishMany(['a', 'b'].map((key, n) => ({ key, data: { n } })))
  const [arrived, go] = [gate(), gate()]
  const answer = async () => {
    arrived.open()
    await go.opened
    return ACKNOWLEDGED
  }
  // Both are in one batch of jobs, and each in a request of its own.
  const transport = scripted(answer, { batchBytes: 10 })
  const { worker } = relay([deliver(billing, transport, { concurrency: 1 })])
  await arrived.opened
  const [job] = (await lh.list({ status: 'processing' })).filter(({ partitionKey }) => partitionKey === 'b')
  const aborted = next(worker, 'aborted')
  await lh.cancel(job!.id)
  await aborted
  go.open()
  await until('both have ended', () => worker.tally.completed === 1 && worker.tally.cancelled === 1)
  assert.deepEqual(transport.numbers(), [0])
})

test('a relay stops with nothing held, and closes its transports', async (t) => {
  const { db, publishMany, destination, outbox } = await outboxScene(t)
  const billing = await destination('billing')
  await publishMany(Array.from({ length: 10 }, (_, n) => ({ key: `k${n % 3}`, data: { n } })))
  const transport = scripted()
  const made = outbox.relay([deliver(billing, transport)], { signals: [] })
  const running = made.run()
  await until('all are sent', () => made.worker.tally.completed === 10)
  await made.stop()
  await running
  assert.ok(transport.closed())
  await nothingHeld(db)
  await nothingLeft(db)
})

test('a function of the process is a destination', async (t) => {
  const { lh, publishMany, destination, relay } = await outboxScene(t)
  const billing = await destination('billing')
  await publishMany([0, 1, 2, 3].map((n) => ({ key: `k${n}`, data: { n } })))
  const seen: number[] = []
  const receive = (event: OutgoingEvent) => {
    const n = numberOf(event)
    seen.push(n)
    if (n === 1) throw new Fatal('never')
    if (n === 2 && event.attempt === 1) throw new RetryAfter(1)
    if (n === 3 && event.attempt === 1) throw new Error('once more')
  }
  const { worker } = relay([deliver(billing, inProcess(receive))])
  await until('all have ended', () => worker.tally.completed === 3 && worker.tally.deadLetters === 1)
  assert.deepEqual(seen.sort(), [0, 1, 2, 2, 3, 3])
  assert.match((await lh.list({ status: 'dead_letter' }))[0]!.lastError!.message, /never/)
})

test('the lag of each destination is visible', async (t) => {
  const { db, lh, outbox, publishMany, destination, relay } = await outboxScene(t)
  const [slow, quick] = [
    await destination('slow', { onDeadLetter: 'skip' }),
    await destination('quick', { types: ['order.*'] }),
  ]
  await publishMany([0, 1].map((n) => ({ data: { n } })))
  const { worker } = relay([deliver(quick, scripted())])
  await until('one has all', () => worker.tally.completed === 2)
  await db.clock.advance('1 hour')
  await lh.pause({ queue: 'outbox:slow' })
  const [first, second] = await outbox.lag()
  const common = { transport: 'in_process', deadLetters: 0 }
  assert.deepEqual(first, {
    ...common,
    destination: 'quick',
    onDeadLetter: 'block',
    paused: false,
    unsent: 0,
    oldestMs: undefined,
  })
  assert.ok(second!.oldestMs! >= 3_600_000)
  assert.deepEqual(
    { ...second, oldestMs: 0 },
    { ...common, destination: 'slow', onDeadLetter: 'skip', paused: true, unsent: 2, oldestMs: 0 },
  )
  assert.ok(slow)
})
