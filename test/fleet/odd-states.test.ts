// Odd states of the ring: queues switched on and off, rows deleted by hand, a failover, and a commit that takes its time.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { LogEntry } from '../../src/core/log.ts'
import type { Lane } from '../../src/db/lane.ts'
import { enqueue } from '../../src/jobs/enqueue.ts'
import { ringMap } from '../../src/ring/map.ts'
import { Events } from '../../src/worker/events.ts'
import { QueuesWithoutSeats } from '../../src/worker/queues-without-seats.ts'
import { RingPart } from '../../src/worker/ring-part.ts'
import { waitUntilBlocked } from '../support/database.ts'
import { newWorker, session } from '../support/queue.ts'
import { assertDisjoint, assertDivided, ring, SEAT_LEASE_MS, settleAll, type TestMember } from '../support/ring.ts'
import { until } from '../support/until.ts'

test('a seat on an epoch in which the queue was off may hold any bucket', async (t) => {
  const { configure, member } = await ring(t)
  await configure('consistent', 'other')
  await configure('off')
  const [one, two] = [1, 2].map((n) => member(`${n}`, { queues: ['other', 'q'] })) as [TestMember, TestMember]
  await settleAll([one, two])
  assert.deepEqual([one.buckets().size, two.buckets().size], [1_024, 1_024])
  await configure('consistent')
  await two.settle()
  await two.settle()
  assert.equal(two.buckets().size, 0, 'one still claims from all')
  await settleAll([one, two])
  assertDivided([one, two])
  assertDivided([one, two], 'other')
})

test('who claims from a queue that is off owns none of its keys, and is told when it does again', async (t) => {
  const { configure, member } = await ring(t)
  await configure('consistent', 'other')
  await configure('consistent')
  const members = [1, 2].map((n) => member(`${n}`, { queues: ['other', 'q'] })) as [TestMember, TestMember]
  const changesOf = (kind: 'gained' | 'lost', each: TestMember) =>
    each[kind].filter(({ queue }) => queue === 'q').flatMap(({ buckets }) => buckets)
  const owners = () => members.filter((each) => each.ring.owns('q', 'k') !== undefined).length
  await settleAll(members)
  assert.equal(owners(), 1)
  const before = members.map((each) => each.buckets())
  for (const each of members) {
    each.gained.length = 0
    each.lost.length = 0
  }
  await configure('off')
  await settleAll(members)
  for (const each of members) assert.equal(each.buckets().size, 1_024)
  assert.equal(owners(), 0)
  for (const [index, each] of members.entries()) {
    assert.deepEqual(new Set(changesOf('lost', each)), before[index], 'the other may claim from them, too')
    assert.deepEqual(changesOf('gained', each), [])
  }
  await configure('consistent')
  await settleAll(members)
  assertDivided(members)
  assert.equal(owners(), 1)
  for (const [index, each] of members.entries()) {
    assert.deepEqual(new Set(changesOf('gained', each)), before[index])
    assert.equal(changesOf('lost', each).length, before[index]!.size, 'nothing is lost a second time')
  }
})

test('a queue that is switched off while its epoch is acknowledged has one owner of a bucket until the next', async (t) => {
  const { configure, member } = await ring(t)
  await configure('consistent', 'other')
  await configure('modulo')
  const queues = ['other', 'q']
  const [one, two, three] = [member('one', { queues }), member('two', { queues }), member('three', { queues })]
  await settleAll([one, two, three])
  await three.ring.leave()
  assert.equal(await two.ring.tick(), 0)
  await configure('off')
  await two.ring.tick()
  assertDisjoint([one, two])
})

test('a worker that waits for many others computes the map of an epoch once', async (t) => {
  const { configure, member, db } = await ring(t)
  await configure('consistent')
  const first = member('first')
  await first.settle()
  const OTHERS = 300
  const weight = 10
  await db.pool.query(
    `insert into leasehold.seat (number, worker_id, label, weight, queues, epoch, taken_at, expires_at)
    select 1 + n, gen_random_uuid(), n::text, $2, array['q'], 1, leasehold.clock(), leasehold.clock() + interval '1 h'
    from generate_series(1, $1::int) n`,
    [OTHERS, weight],
  )
  const seats = Array.from({ length: OTHERS }, (_, index) => ({ number: 1 + index, weight }))
  const cpuMs = async (work: () => unknown): Promise<number> => {
    const before = process.cpuUsage()
    await work()
    const { user, system } = process.cpuUsage(before)
    return (user + system) / 1_000
  }
  await first.settle()
  await db.pool.query('update leasehold.seat set epoch = 2 where number > 1')
  const newcomer = member('newcomer')
  const aMapMs = await cpuMs(() => ringMap('consistent', seats))
  const beatsMs = await cpuMs(() => newcomer.settle())
  assert.ok(beatsMs < (OTHERS / 5) * aMapMs, `${beatsMs} ms, and ${aMapMs} ms a map`)
})

test('a queue that goes to another strategy, and off, is no problem for its workers', async (t) => {
  const { configure, member, db } = await ring(t)
  await configure('consistent')
  const members = [member('one'), member('two'), member('three')]
  await settleAll(members)
  for (const strategy of ['modulo', 'rendezvous', 'consistent'] as const) {
    await configure(strategy)
    for (const each of [...members, ...members, ...members]) {
      await each.ring.tick()
      assertDisjoint(members)
    }
    await settleAll(members)
    assertDivided(members)
  }
  await configure('off')
  await settleAll(members)
  for (const each of members) assert.equal(each.buckets().size, 1_024)
  assert.equal((await db.pool.query('select from leasehold.seat')).rowCount, 0)
  await configure('consistent')
  await settleAll(members)
  assertDivided(members)
})

test('one worker more than there are seats is a problem that names the number of seats', async (t) => {
  const { configure, member, db } = await ring(t)
  await configure('consistent')
  await db.pool.query(`
    insert into leasehold.seat (number, worker_id, label, weight, queues, epoch, taken_at, expires_at)
    select n, gen_random_uuid(), n::text, 1, array['q'], 0, leasehold.clock(), leasehold.clock() + interval '10 s'
    from generate_series(1, 1024) n`)
  const one = member('one')
  await assert.rejects(one.ring.tick(), { code: 'SEAT_TAKEN', message: /^all 1024 seats/ })
  assert.deepEqual(one.ring.lines, [{ queue: 'q', line: 0 }])
})

test('a seat that is deleted by hand is taken again', async (t) => {
  const { configure, member, db } = await ring(t)
  await configure('consistent')
  const members = [member('one'), member('two'), member('three')]
  await settleAll(members)
  const before = members.map((each) => each.buckets())
  await db.pool.query('delete from leasehold.seat where number = 2')
  await settleAll(members)
  assertDivided(members)
  assert.deepEqual(
    members.map((each) => each.buckets()),
    before,
  )
  for (const tables of ['seat, leasehold.epoch', 'seat', 'epoch']) {
    await db.pool.query(`truncate leasehold.${tables}`)
    await settleAll(members)
    assertDivided(members)
    const late = member('late')
    await late.settle()
    assert.equal(late.buckets().size, 0, `${tables}: the others have not acknowledged`)
    await settleAll([...members, late])
    assertDivided([...members, late])
    await late.ring.leave()
    await settleAll(members)
    assertDivided(members)
  }
})

test('a seat whose worker has died expires although the clock of the database was set back', async (t) => {
  const { configure, member, db, pass } = await ring(t)
  await configure('consistent')
  const [one, two] = [member('one'), member('two')]
  await settleAll([one, two])
  await db.clock.advance('-1 hour')
  await one.settle()
  await pass(SEAT_LEASE_MS)
  await settleAll([one])
  assertDivided([one])
})

test('a failover that set the epochs back begins others of the same number', async (t) => {
  const { configure, member, db } = await ring(t)
  await configure('consistent')
  const [one, two, three] = [member('one'), member('two'), member('three')]
  await settleAll([one, two])
  await db.pool.query(
    'create table kept_seat as table leasehold.seat; create table kept_epoch as table leasehold.epoch',
  )
  await settleAll([one, two, three])
  const lost = (await db.pool.query('select number, salt from leasehold.epoch order by 1 desc limit 1')).rows[0]
  // The new primary lacks the join of three. Another worker joins there first.
  await db.pool.query(`truncate leasehold.seat, leasehold.epoch;
    insert into leasehold.seat table kept_seat; insert into leasehold.epoch table kept_epoch`)
  const four = member('four', { weight: 3 })
  await four.settle()
  const found = (await db.pool.query('select number, salt from leasehold.epoch order by 1 desc limit 1')).rows[0]
  assert.equal(found.number, lost.number)
  assert.notEqual(found.salt, lost.salt)
  assert.equal(four.buckets().size, 0)
  const acknowledged = async () => (await db.pool.query('select min(epoch) as epoch from leasehold.seat')).rows[0].epoch
  await one.ring.tick()
  await two.ring.tick()
  assert.ok((await acknowledged()) < found.number, 'the acknowledgement of the lost epoch does not count')
  const members = [one, two, three, four]
  await settleAll(members)
  assertDivided(members)
})

for (const when of ['before', 'while'] as const) {
  test(`a worker that is stopped ${when} it takes its seat leaves none`, async (t) => {
    const { configure, lane, db } = await ring(t)
    await configure('consistent')
    const part = new RingPart({
      lane,
      worker: newWorker(),
      queues: ['q'],
      weight: 1,
      seat: undefined,
      leaseMs: 30_000,
      stays: true,
      claimsAnswered: async () => {},
      onChange: () => {},
      events: new Events(() => {}, 'short'),
    })
    const starting = when === 'while' ? part.start() : undefined
    await part.stop()
    await (starting ?? part.start())
    assert.equal((await db.pool.query('select from leasehold.seat')).rowCount, 0)
  })
}

test('an acknowledgement that is not committed yet keeps the next epoch from beginning', async (t) => {
  const { configure, member, db } = await ring(t)
  await configure('consistent')
  // The newcomer is to wait for as long as this takes on a busy machine, not for 2 s.
  await db.pool.query(`alter function leasehold.ring_beat set lock_timeout = '0'`)
  const [one, three] = [member('one'), member('three')]
  const [held, newcomer, observer] = [await session(db), await session(db), await db.connect()]
  let gate: Promise<void> | undefined
  const open = { gate: () => {} }
  const run: Lane['run'] = async (...args) => {
    if (gate === undefined) return held.lane.run(...args)
    await held.client.query('begin')
    const rows = await held.lane.run(...args)
    await gate
    await held.client.query('commit')
    return rows as never
  }
  const two = member('two', { lane: { run } as Lane })
  await settleAll([one, two, three])
  await three.ring.leave()
  await one.settle()
  assert.equal(await two.ring.tick(), 0)
  gate = new Promise((resolve) => {
    open.gate = resolve
  })
  const acknowledging = two.ring.tick()
  await until('its transaction is open', async () => {
    const { rows } = await observer.query('select state from pg_stat_activity where pid = $1', [held.pid])
    return rows[0].state === 'idle in transaction'
  })
  const four = member('four', { lane: newcomer.lane })
  const joining = four.settle()
  const waits = waitUntilBlocked(observer, newcomer.pid).then(() => true)
  if (!(await Promise.race([waits, joining.then(() => false)]))) {
    await one.settle()
    await four.settle()
  }
  open.gate()
  await acknowledging
  await joining
  gate = undefined
  assertDisjoint([one, two, four])
  await settleAll([one, two, four])
  assertDivided([one, two, four])
})

test('a queue in which jobs wait and no worker has a seat is announced once, until it has one', async (t) => {
  const { configure, member, lane, pass } = await ring(t)
  await configure('consistent')
  const entries: LogEntry[] = []
  const events = new Events((entry) => void entries.push(entry), 'another')
  const unowned: string[] = []
  events.on('unowned', ({ queue, buckets }) => void unowned.push(`${queue}: ${buckets.length}`))
  const seats = new QueuesWithoutSeats(lane, events)
  await seats.look()
  assert.deepEqual(unowned, [], 'nothing waits')
  await enqueue(lane, [{ kind: 'q', input: 1, partitionKey: 'k' }])
  await seats.look()
  assert.deepEqual(unowned, [], 'its workers may just be taking their seats')
  await seats.look()
  await seats.look()
  assert.deepEqual(unowned, ['q: 1024'])
  assert.match(entries.map(({ message }) => message).join(), /jobs of queue q wait, and no running worker handles it/)
  const one = member('one')
  await settleAll([one])
  await seats.look()
  assert.deepEqual(unowned, ['q: 1024'])
  await pass(SEAT_LEASE_MS + 1)
  await seats.look()
  await seats.look()
  assert.deepEqual(unowned, ['q: 1024', 'q: 1024'], 'its worker has died')
})
