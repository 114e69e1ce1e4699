// Events are dropped by the day, never below what is unsent, and can be sent again until then.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Lane } from '../../src/db/lane.ts'
import { dropPartitions } from '../../src/jobs/housekeeping.ts'
import { destination as declare, deliver, type OutgoingEvent } from '../../src/outbox/index.ts'
import { stopsIn } from '../support/order.ts'
import { session } from '../support/queue.ts'
import { until } from '../support/until.ts'
import { codeOf, count } from '../support/worker.ts'
import { numberOf, type OutboxScene, outboxScene, scripted } from './scene.ts'

const FOR_EVER = 1e12

/** Drops what may be dropped, and returns how many events are left. */
async function eventsAfterDrop({ db }: OutboxScene): Promise<number> {
  const lane = new Lane(db.pool)
  while ((await dropPartitions(lane, FOR_EVER))! > 0);
  return count(db, 'from leasehold.event')
}

/** Jobs and dead letters whose event is not there. */
const LOST = `from (
    select payload from leasehold.job union all select payload from leasehold.dead_letter
  ) as j where not exists (select from leasehold.event e where e.id = (j.payload ->> 'id')::uuid)`

const minuteBefore = (at: Date) => new Date(at.getTime() - 60_000)

async function sendAll(scene: OutboxScene, name: string): Promise<void> {
  const { outbox } = scene
  const made = outbox.relay([deliver(declare(name, { transport: 'in_process' }), scripted())], {
    signals: [],
    poll: 20,
  })
  const running = made.run()
  await until('all are sent', async () => (await outbox.lag()).find((lag) => lag.destination === name)!.unsent === 0)
  await made.stop()
  await running
}

test('events are dropped after their retention, and the retention can be configured', async (t) => {
  const scene = await outboxScene(t)
  const { db, publish, leasehold } = scene
  await publish({})
  await db.clock.advance('7 days')
  assert.equal(await eventsAfterDrop(scene), 1, 'the day has not ended seven days ago')
  await leasehold({ retention: { events: '30d' } }).configure([])
  await db.clock.advance('2 days')
  assert.equal(await eventsAfterDrop(scene), 1)
  await leasehold({ retention: { events: '1d' } }).configure([])
  assert.equal(await eventsAfterDrop(scene), 0)
})

test('a day of events stays while one of them, or an earlier one, is not sent', async (t) => {
  const scene = await outboxScene(t)
  const { db, publish, destination, outbox } = scene
  await destination('billing')
  await publish({ type: 'a' })
  await db.clock.advance('1 day')
  await destination('other', { types: ['b'] })
  await publish({ type: 'b' })
  await db.clock.advance('12 days')
  assert.equal(await eventsAfterDrop(scene), 2)
  // A destination that was removed still has what it was to get.
  await outbox.remove('billing')
  assert.equal(await eventsAfterDrop(scene), 2)
  await destination('billing')
  await sendAll(scene, 'billing')
  assert.equal(await eventsAfterDrop(scene), 1, 'the first day is gone, the second is not sent to all')
  await sendAll(scene, 'other')
  assert.equal(await eventsAfterDrop(scene), 0)
})

test('a dead letter keeps its event, for as long as it can be redriven', async (t) => {
  const scene = await outboxScene(t)
  const { db, lh, publish, destination, relay } = scene
  const billing = await destination('billing', { onDeadLetter: 'skip' })
  await publish({})
  const { worker } = relay([
    deliver(
      billing,
      scripted(() => ({ outcome: 'refused_for_good', reason: 'no' })),
    ),
  ])
  await until('it is refused', () => worker.tally.deadLetters === 1)
  await db.clock.advance('12 days')
  assert.equal(await eventsAfterDrop(scene), 1)
  await db.pool.query('delete from leasehold.dead_letter')
  assert.equal(await eventsAfterDrop(scene), 0)
  assert.ok(lh)
})

test('events of a day without a partition are pruned by the same rules', async (t) => {
  const scene = await outboxScene(t)
  const { db, publish, destination } = scene
  await destination('billing')
  await db.clock.advance('60 days')
  await publish({})
  assert.equal(await count(db, 'from leasehold.event_default'), 1)
  await db.clock.advance('12 days')
  assert.equal(await eventsAfterDrop(scene), 1)
  await sendAll(scene, 'billing')
  assert.equal(await eventsAfterDrop(scene), 0)
})

test('a publish that is open keeps its day, and after its commit its events are unsent', async (t) => {
  const scene = await outboxScene(t)
  const { db, outbox, destination } = scene
  await destination('billing')
  const producer = await db.connect()
  await producer.query('begin')
  await outbox.publish(producer, { type: 'a' })
  await db.clock.advance('12 days')
  await eventsAfterDrop(scene)
  await producer.query('commit')
  assert.equal(await eventsAfterDrop(scene), 1)
  assert.equal(await count(db, LOST), 0)
})

test('a replay that comes between the last look and the drop leaves no job without its event', async (t) => {
  const scene = await outboxScene(t)
  const { db, publish, destination, leasehold } = scene
  await destination('billing', { types: ['none'] })
  await publish({ type: 'a' })
  await destination('billing')
  await db.clock.advance('12 days')
  // So that there is nothing else to drop, and it stops at the events.
  await leasehold({ retention: { events: '90d' } }).configure([])
  await eventsAfterDrop(scene)
  await leasehold({ retention: { events: '7d' } }).configure([])
  const dropper = await stopsIn(db, 'drop_partitions', "if parent = 'archive' then")
  // Longer than this test stops it.
  await db.pool.query("alter function leasehold.drop_partitions(interval) set lock_timeout = '1 min'")
  const dropping = dropper.client.query(`select leasehold.drop_partitions('1000 days')`)
  await dropper.arrived()
  const replayer = await session(db)
  let isDone = false
  const replaying = replayer.client
    .query(`select * from leasehold.replay('billing', '-infinity', 'infinity', null, null, 0, 1000)`)
    .finally(() => {
      isDone = true
    })
  const observer = await db.connect()
  await until('it waits, or has ended', async () => {
    const { rows } = await observer.query('select cardinality(pg_blocking_pids($1)) > 0 as waits', [replayer.pid])
    return isDone || rows[0].waits === true
  })
  await dropper.open()
  // The drop also needs the parent, which the replay has read: one of them gives up, as it does after 50 ms without this stop.
  await Promise.allSettled([dropping, replaying])
  assert.equal(await count(db, LOST), 0)
})

test('a replay that is open keeps the days that it has looked at', async (t) => {
  const scene = await outboxScene(t)
  const { db, publish, destination } = scene
  await destination('billing', { types: ['none'] })
  await publish({ type: 'a' })
  await destination('billing')
  await db.clock.advance('12 days')
  const replayer = await session(db)
  await replayer.client.query('begin')
  await replayer.client.query(`select * from leasehold.replay('billing', '-infinity', 'infinity', null, null, 0, 1000)`)
  await dropPartitions(new Lane(db.pool), FOR_EVER)
  await replayer.client.query('commit')
  assert.equal(await eventsAfterDrop(scene), 1)
  assert.equal(await count(db, LOST), 0)
})

test('stored events are replayed by range and by filter, in their order, with their ids', async (t) => {
  const scene = await outboxScene(t)
  const { db, publish, publishMany, destination, outbox, relay } = scene
  await destination('first', { types: ['order.*'] })
  await publish({ type: 'order.paid', key: 'k', data: { n: 0 } })
  await db.clock.advance('1 hour')
  const from = minuteBefore((await db.pool.query('select leasehold.clock() as now')).rows[0].now)
  // The clock of the second statement is behind that of the first, as when it has waited for the key.
  const ids = await publishMany([1, 2].map((n) => ({ type: 'order.paid', key: 'k', data: { n } })))
  await db.clock.advance('-10 seconds')
  ids.push(await publish({ type: 'order.paid', key: 'k', data: { n: 3 } }))
  await db.clock.advance('20 seconds')
  await publish({ type: 'order.sent', key: 'j', data: { n: 4 } })
  await publish({ type: 'invoice.paid', key: 'j', data: { n: 5 } })
  await db.clock.advance('1 hour')
  const to = new Date((await db.pool.query('select leasehold.clock() as now')).rows[0].now)
  await publish({ type: 'order.paid', key: 'k', data: { n: 6 } })
  await sendAll(scene, 'first')
  const second = await destination('second', { types: ['order.*'] })
  const seen: OutgoingEvent[] = []
  relay([
    deliver(
      second,
      scripted((events) => {
        seen.push(...events)
        return { outcome: 'acknowledged' }
      }),
    ),
  ])
  const replayed = async (filter: object) => {
    seen.length = 0
    const number = await outbox.replay({ destination: second, from, ...filter }, { by: 'ada' })
    await until('they are sent', () => seen.length === number)
    return seen.map(numberOf).sort()
  }
  assert.deepEqual(await replayed({ to }), [1, 2, 3, 4])
  const ofKey = seen.filter(({ key }) => key === 'k')
  assert.deepEqual(
    ofKey.map(({ id }) => id),
    ids,
    'in their order, with their ids',
  )
  assert.deepEqual(await replayed({}), [1, 2, 3, 4, 6])
  assert.deepEqual(await replayed({ types: ['order.s*'] }), [4])
  assert.deepEqual(await replayed({ keys: ['k'], to }), [1, 2, 3])
  assert.deepEqual(await replayed({ types: ['invoice.*'] }), [], 'the destination does not take it')
  const { rows } = await db.pool.query(
    'select action, by, outcome, queue, detail from leasehold.operator_actions order by id limit 1',
  )
  const [action] = rows
  assert.deepEqual(action, {
    action: 'replay',
    by: 'ada',
    outcome: 'replayed',
    queue: 'outbox:second',
    detail: '4 events',
  })
})

test('a replay of many events goes page by page, and misses none', async (t) => {
  const scene = await outboxScene(t)
  const { db, publishMany, destination, outbox } = scene
  await destination('late', { types: ['none'] })
  for (let n = 0; n < 3; n++) await publishMany(Array.from({ length: 700 }, () => ({})))
  await destination('late')
  assert.equal(await outbox.replay({ destination: 'late', from: new Date(0) }), 2_100)
  assert.equal(await count(db, "from (select distinct payload ->> 'id' from leasehold.job) as j"), 2_100)
})

test('a replay that cannot work is refused', async (t) => {
  const { outbox } = await outboxScene(t)
  const from = new Date(0)
  for (const filter of [
    { destination: 'unknown', from },
    { destination: 'unknown' },
    { destination: 'unknown', from, to: 'now' },
    { destination: 'unknown', from, types: 'a' },
    { from },
    { destination: 'unknown', from, key: 'k' },
  ]) {
    assert.equal(await codeOf(() => outbox.replay(filter as never)), 'INVALID_OPTION', JSON.stringify(filter))
  }
})
