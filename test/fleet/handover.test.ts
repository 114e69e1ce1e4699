// Buckets change hands: two or three members of one ring, beat by beat.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { assertDisjoint, assertDivided, ring, SEAT_LEASE_MS, settleAll, USABLE_MS } from '../support/ring.ts'

test('the loser acknowledges only when its claim is answered, and the gainer waits for that', async (t) => {
  const { configure, member, map, db } = await ring(t)
  await configure('consistent')
  const [one, two] = [member('one'), member('two')]
  await one.settle()
  assertDivided([one])
  const answer = one.claim()
  await two.settle()
  assert.equal(two.buckets().size, 0, 'one has not seen the epoch')

  const losing = one.ring.tick()
  await two.settle()
  assert.equal(two.buckets().size, 0, 'one waits for its claim')
  const acknowledged = async () =>
    (await db.pool.query('select epoch from leasehold.seat where number = 1')).rows[0].epoch
  assert.equal(await acknowledged(), '1')
  answer()
  assert.equal(await losing, 0, 'it acknowledges at once')
  await two.settle()
  assert.equal(two.buckets().size, 0, 'it has not yet')
  await one.ring.tick()
  assert.equal(await acknowledged(), '2')
  await two.settle()
  assertDivided([one, two])
  const owners = await map()
  for (const bucket of one.buckets()) assert.equal(owners[bucket], 1)
  assert.deepEqual(
    one.lost.flatMap(({ buckets }) => buckets).filter((bucket) => owners[bucket] === 1),
    [],
    'what stayed was never dropped',
  )
})

test('buckets that stay never pause, while others join and leave', async (t) => {
  const { configure, member, map, pass } = await ring(t)
  await configure('consistent')
  const members = [member('one'), member('two')]
  await settleAll(members)
  const [one, two] = members
  const three = member('three')
  const mine = one!.buckets()
  await three.settle()
  const stays = async () => {
    const owners = await map()
    return [...mine].every((bucket) => owners[bucket] !== 1 || one!.buckets().has(bucket))
  }
  for (const beats of [one!, three, two!, one!, two!, three]) {
    await beats.ring.tick()
    assert.ok(await stays())
    assertDisjoint([one!, two!, three])
  }
  await settleAll([one!, two!, three])
  assertDivided([one!, two!, three])
  await three.ring.leave()
  assert.equal(three.buckets().size, 0)
  await settleAll([one!, two!])
  assertDivided([one!, two!])
  assert.deepEqual(one!.buckets(), mine)
  await pass(1)
})

test('a leaver keeps its seat until its claim is answered', async (t) => {
  const { configure, member } = await ring(t)
  await configure('consistent')
  const [one, two] = [member('one'), member('two')]
  await settleAll([one, two])
  const answer = two.claim()
  const leaving = two.ring.leave()
  assert.equal(two.buckets().size, 0)
  const before = one.buckets().size
  await one.settle()
  assert.equal(one.buckets().size, before)
  answer()
  await leaving
  await one.settle()
  assertDivided([one])
})

test('a member whose beats fail drops its lines before its seat expires', async (t) => {
  const { configure, member, pass, db } = await ring(t)
  await configure('consistent')
  const [one, two] = [member('one'), member('two')]
  await settleAll([one, two])
  await pass(USABLE_MS - 1)
  await one.settle()
  two.nextBeat = 'never arrives'
  await assert.rejects(two.ring.tick())
  assert.ok(two.buckets().size > 0)
  assert.ok(two.ring.owns('q', 'key:3') === undefined || two.ring.owns('q', 'key:3')!.forMs === 1)
  const lost = two.lost.length
  await pass(1)
  two.nextBeat = 'never arrives'
  await assert.rejects(two.ring.tick())
  assert.equal(two.lost.length, lost + 1, 'the event comes with the beat that fails, claims or not')
  assert.equal(two.buckets().size, 0)
  const { rows } = await db.pool.query(
    'select expires_at > leasehold.clock() as lives from leasehold.seat where number = 2',
  )
  assert.equal(rows[0].lives, true)
  await one.settle()
  assert.ok(one.buckets().size < 1_024)

  await pass(SEAT_LEASE_MS - USABLE_MS)
  await one.settle()
  assertDivided([one])
})

test('a member that stood still claims line 0 only, until its next beat', async (t) => {
  const { configure, member, pass, map } = await ring(t)
  await configure('consistent')
  const [one, two] = [member('one'), member('two')]
  await settleAll([one, two])
  const before = two.buckets()
  await pass(SEAT_LEASE_MS)
  await one.settle()
  assert.deepEqual(two.ring.lines, [{ queue: 'q', line: 0 }])
  assert.deepEqual(
    [...two.ring.owned!.get('q')!].filter((byte) => byte !== 0),
    [],
  )
  assert.equal(two.ring.owns('q', 'a'), undefined)
  await settleAll([one, two])
  assertDivided([one, two])
  assert.equal((await map())[[...before][0]!], 2, 'it took its seat again')
  assert.deepEqual(two.buckets(), before)
})

test('a late beat renews an expired seat that no member has vacated', async (t) => {
  const { configure, member, pass } = await ring(t)
  await configure('consistent')
  const [one, two] = [member('one'), member('two')]
  await settleAll([one, two])
  const before = two.buckets()
  await pass(3 * SEAT_LEASE_MS)
  assert.equal(two.buckets().size + one.buckets().size, 0)
  await two.ring.tick()
  assertDisjoint([one, two])
  await settleAll([one, two])
  assertDivided([one, two])
  assert.equal(before.size, two.buckets().size)
})

test('a beat whose reply is lost changes nothing when it is sent again', async (t) => {
  const { configure, member, db } = await ring(t)
  await configure('consistent')
  const [one, two] = [member('one'), member('two')]
  for (const each of [one, two]) {
    each.nextBeat = 'loses its reply'
    await assert.rejects(each.ring.tick())
  }
  await settleAll([one, two])
  assertDivided([one, two])
  assert.equal((await db.pool.query('select from leasehold.seat')).rowCount, 2)
  one.nextBeat = 'loses its reply'
  await assert.rejects(one.ring.leave())
  await two.settle()
  assertDivided([two])
})

test('a restart takes the seat back, and no bucket moves', async (t) => {
  const { configure, member } = await ring(t)
  await configure('consistent')
  const [one, two, three] = [member('one'), member('two'), member('three')]
  await settleAll([one, two, three])
  const before = [one, two, three].map((each) => each.buckets())
  await two.ring.leave()
  const again = member('two again')
  await settleAll([again, one, three])
  assert.deepEqual(
    [one, again, three].map((each) => each.buckets()),
    before,
  )
  assert.deepEqual(
    [...one.lost, ...three.lost].filter(({ epoch }) => epoch > 3),
    [],
  )
})

test('a seat that is asked for and taken is a problem, and is taken when it becomes free', async (t) => {
  const { configure, member, pass } = await ring(t)
  await configure('consistent')
  const [one, two] = [member('one', { seat: 7 }), member('two', { seat: 7 })]
  await one.settle()
  await assert.rejects(two.ring.tick(), { code: 'SEAT_TAKEN', seat: 7 })
  assert.deepEqual(two.ring.lines, [{ queue: 'q', line: 0 }])
  await one.settle()
  assertDivided([one, two])
  await pass(SEAT_LEASE_MS)
  await settleAll([two])
  assertDivided([two])
  assert.equal(one.buckets().size, 0)
  await assert.rejects(one.ring.tick(), { code: 'SEAT_TAKEN', seat: 7 })
})

test('a gainer that waits for long announces it once', async (t) => {
  const { configure, member, pass } = await ring(t)
  await configure('consistent')
  const [one, two] = [member('one'), member('two')]
  await one.settle()
  const answer = one.claim()
  const losing = one.ring.tick()
  await two.settle()
  for (let beats = 0; beats < 20; beats++) {
    await pass(250)
    await two.ring.tick()
  }
  assert.equal(two.waiting.length, 1)
  assert.ok(two.waiting[0]!.buckets.length > 300)
  assert.equal(two.waiting[0]!.queue, 'q')
  answer()
  await losing
})

test('a member that stood still and beats first has lost its buckets all the same', async (t) => {
  const { configure, member, pass } = await ring(t)
  await configure('consistent')
  const [one, two] = [member('one'), member('two')]
  await settleAll([one, two])
  const before = two.buckets()
  two.lost.length = 0
  await pass(SEAT_LEASE_MS)
  await settleAll([one])
  assert.equal(one.buckets().size, 1_024)
  // Its beat comes before any claim would have looked at the time. It takes the same seat, and owns the same buckets again.
  await two.ring.tick()
  assert.deepEqual(
    two.lost.flatMap(({ buckets }) => buckets).sort(),
    [...before].sort(),
    'who keeps state in memory drops it',
  )
  assertDisjoint([one, two])
  await settleAll([one, two])
  assertDivided([one, two])
  assert.deepEqual(two.buckets(), before)
})
