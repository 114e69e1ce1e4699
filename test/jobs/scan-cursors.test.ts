// Where a worker's next claim starts, by a clock that the test moves. Tables in memory stand in for the server.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ClaimedJob } from '../../src/jobs/job.ts'
import { type Asked, ScanCursors } from '../../src/jobs/scan-cursors.ts'
import type { Look, ScanStart } from '../../src/jobs/scan-walk.ts'
import type { StoredTime } from '../../src/jobs/stored-time.ts'

// 2030-01-01, as Postgres stores it.
const NEW_YEAR = '00035d15590f4000' as StoredTime

const aJob = (queue: string, priority = 5) =>
  ({ queue, priority, availableAt: NEW_YEAR, jobId: '7', line: 0 }) as ClaimedJob

/** Returns what the server would, from queues that hold so many jobs of priority 5, and takes them out. */
function answer(asked: Asked, limit: number, holds: Map<string, number>): ClaimedJob[] {
  const jobs: ClaimedJob[] = []
  for (const { queue } of asked.places) {
    const taken = Math.min(holds.get(queue) ?? 0, asked.share, limit - jobs.length)
    holds.set(queue, (holds.get(queue) ?? 0) - taken)
    for (let n = 0; n < taken; n++) jobs.push(aJob(queue))
  }
  return jobs
}

const queuesOf = ({ walk }: Asked) => ('queues' in walk ? walk.queues : [...new Set(walk.map(({ queue }) => queue))])

test('a short batch or a wake-up brings the next look forward, but not more often than a thirtieth of the time', () => {
  let now = 1_000
  const cursors = new ScanCursors(['a', 'b'], () => now)
  const learn = (asked: Asked, jobs: ClaimedJob[], walkMs: number) => cursors.learn(asked, { jobs, limit: 2, walkMs })

  const first = cursors.next(2)
  assert.equal(first.fromStart, true)
  assert.deepEqual([...(first.walk as Look).queues].sort(), ['a', 'b'])
  learn(first, [aJob('a'), aJob('b')], 8)
  const second = cursors.next(2)
  assert.equal(second.fromStart, false)
  assert.deepEqual(
    (second.walk as ScanStart[]).map((spot) => `${spot.queue} ${spot.priority} ${spot.fromAt} ${spot.fromId}`).sort(),
    ['a', 'b'].map((queue) => `${queue} 5 2030-01-01 00:00:00.000000+00 7`),
  )
  now += 249
  assert.equal(cursors.next().fromStart, false)
  now += 1
  const third = cursors.next(2)
  assert.equal(third.fromStart, true, 'every 250 ms')

  learn(third, [aJob('a'), aJob('b')], 8)
  cursors.lookFromStart()
  now += 239
  assert.equal(cursors.next(2).fromStart, false, 'a look that cost 8 ms is not repeated within 240 ms')
  now += 1
  const fourth = cursors.next(2)
  assert.equal(fourth.fromStart, true)

  learn(fourth, [aJob('a')], 100)
  learn(fourth, [aJob('a')], 100)
  learn(second, [], 1)
  now += 2_999
  assert.equal(cursors.next(2).fromStart, false, 'somebody holds a snapshot: looks are slow, so they are rare')
  now += 1
  assert.equal(cursors.next(2).fromStart, true)
})

test('queues take turns at being first, in any rhythm of claims and looks', () => {
  for (const cadence of [20, 70, 130, 200, 240, 260, 1_000]) {
    let now = 0
    const cursors = new ScanCursors(['a', 'b', 'c', 'a'], () => now)
    const served = new Map<string, number>()
    for (let claims = 0; claims < 600; claims++) {
      now += cadence
      const asked = cursors.next()
      // The queue that comes first fills the batch.
      const [queue] = queuesOf(asked)
      served.set(queue!, (served.get(queue!) ?? 0) + 1)
      cursors.learn(asked, { jobs: [aJob(queue!, 0)], limit: 1, walkMs: 1 })
    }
    for (const queue of ['a', 'b', 'c']) assert.ok(served.get(queue)! > 100, `${queue}, every ${cadence} ms`)
  }
})

test('of a hundred queues with a backlog each is served before any is served a tenth of it, looks or no looks', () => {
  for (const looksCostMs of [0.1, 10_000]) {
    let now = 0
    const cursors = new ScanCursors(
      Array.from({ length: 100 }, (_, n) => `q${n}`),
      () => now,
    )
    const holds = new Map(Array.from({ length: 100 }, (_, n) => [`q${n}`, 1_000]))
    let claims = 0
    for (; [...holds.values()].some((left) => left === 1_000); claims++) {
      now += 10
      const asked = cursors.next(50)
      const walkMs = asked.fromStart ? looksCostMs : 0.1
      cursors.learn(asked, { jobs: answer(asked, 50, holds), limit: 50, walkMs })
      assert.ok(claims < 20, `after ${claims} claims some are not served`)
    }
    assert.ok(Math.min(...holds.values()) > 900)
  }
})

test('one deep queue among a hundred gets whole claims, and a lone job of another is not kept waiting by it', () => {
  let now = 0
  const names = Array.from({ length: 100 }, (_, n) => `q${n}`)
  const cursors = new ScanCursors(names, () => now)
  const holds = new Map([['q7', 100_000]])
  const claim = (looksCostMs = 0.01) => {
    now += 10
    const asked = cursors.next(500)
    const jobs = answer(asked, 500, holds)
    cursors.learn(asked, { jobs, limit: 500, walkMs: asked.fromStart ? looksCostMs : 0.1, at: NEW_YEAR })
    return jobs
  }
  claim()
  for (let n = 0; n < 10; n++) assert.equal(claim().length, 500, `claim ${n}`)
  now += 250
  // Another session holds a snapshot. From here on there are no looks.
  claim(10_000)
  now += 250
  claim(10_000)
  holds.set('q50', 1)
  let claims = 1
  while (holds.get('q50') === 1) {
    claim()
    claims++
  }
  assert.ok(claims <= 14, `found by claim ${claims}`)
  holds.set('q51', 1)
  cursors.notified('q51')
  assert.equal(claim()[0]!.queue, 'q51', 'a queue that the worker was told of is asked at once')
})

test('the workers of a fleet do not all begin with the same queue', () => {
  const firstOf = (random: number) =>
    queuesOf(
      new ScanCursors(
        ['a', 'b', 'c'],
        () => 0,
        () => random,
      ).next(),
    )[0]
  assert.deepEqual([0, 0.4, 0.99].map(firstOf), ['a', 'b', 'c'])
})

test('a look that was full before the last queue goes on behind it at once', () => {
  const now = () => 0
  const cursors = new ScanCursors(['a', 'b', 'c'], now, now)
  cursors.learn(cursors.next(2), { jobs: [aJob('a'), aJob('a')], limit: 2, walkMs: 1 })
  const next = cursors.next(2)
  assert.equal(next.fromStart, true)
  assert.deepEqual(queuesOf(next), ['b', 'c', 'a'])
})

test('a notified queue is claimed first once, and then takes its turn again', () => {
  let now = 0
  const cursors = new ScanCursors(
    Array.from({ length: 20 }, (_, n) => `q${n}`),
    () => now,
    () => 0,
  )
  const look = cursors.next(10)
  // Twice, so that looks are expensive and the next claims are not looks.
  for (let time = 0; time < 2; time++) cursors.learn(look, { jobs: [], limit: 10, walkMs: 1_000, at: NEW_YEAR })
  cursors.notified('q19')
  now += 10
  const first = cursors.next(10)
  assert.equal(first.fromStart, false)
  assert.equal(queuesOf(first)[0], 'q19')
  cursors.learn(first, { jobs: [], limit: 10, walkMs: 1, at: NEW_YEAR })
  assert.deepEqual(
    queuesOf(cursors.next(10)),
    Array.from({ length: 8 }, (_, n) => `q${n + 8}`),
  )
})

test('a claim between looks does not start at the beginning of a queue that was seen empty', () => {
  let now = 0
  const cursors = new ScanCursors(['a', 'b'], () => now)
  const look = cursors.next(10)
  cursors.learn(look, { jobs: [aJob('a')], limit: 10, walkMs: 1, at: NEW_YEAR })
  cursors.learn(look, { jobs: [aJob('a')], limit: 10, walkMs: 1, at: NEW_YEAR })
  now += 10
  const asked = cursors.next(10)
  assert.equal(asked.fromStart, false)
  const starts = new Set((asked.walk as ScanStart[]).map(({ queue, fromAt }) => `${queue} ${fromAt}`))
  assert.deepEqual([...starts].sort(), ['a 2029-12-31 23:59:58.000000+00', 'b 2029-12-31 23:59:58.000000+00'])
  assert.equal((asked.walk as ScanStart[]).filter(({ queue }) => queue === 'b').length, 10, 'whatever priority is next')
})

test('a job that a look finds behind the mark does not move the mark back', () => {
  let now = 0
  const cursors = new ScanCursors(['a'], () => now)
  const at = (digit: number) => `00035d15590f400${digit}` as StoredTime
  const learn = (digit: number, limit: number) => {
    const asked = cursors.next(limit)
    cursors.learn(asked, { jobs: [{ ...aJob('a'), availableAt: at(digit) }], limit, walkMs: 0 })
    return asked
  }
  const mark = () => (cursors.next().walk as ScanStart[])[0]!.fromAt.slice(-4)
  learn(5, 1)
  assert.equal(mark(), '5+00')
  now += 250
  assert.equal(learn(1, 10).fromStart, true)
  cursors.learn(cursors.next(), { jobs: [aJob('b')].slice(1), limit: 1, walkMs: 9 })
  cursors.learn(cursors.next(), { jobs: [aJob('b')].slice(1), limit: 1, walkMs: 9 })
  assert.equal(mark(), '5+00', 'it was alone')
  now += 1_000
  assert.equal(learn(1, 1).fromStart, true)
  assert.equal(mark(), '1+00', 'there may be more')
})

test('one slow look does not blind a worker, and one that fails is not repeated at once', () => {
  let now = 0
  const cursors = new ScanCursors(['a'], () => now)
  const look = (walkMs: number) => {
    const asked = cursors.next()
    assert.equal(asked.fromStart, true)
    cursors.learn(asked, { jobs: [aJob('a')], limit: 1, walkMs })
  }
  look(1)
  now += 250
  look(2_000)
  now += 250
  const failing = cursors.next()
  assert.equal(failing.fromStart, true, 'the look before it was cheap')
  assert.equal(cursors.next().fromStart, false, 'no answer yet, and it is not repeated')
  cursors.failed(failing, 2_500)
  now += 29_000
  assert.equal(cursors.next().fromStart, false, 'a look that fails has its price, too')
  now += 1_000
  assert.equal(cursors.next().fromStart, true, 'but they are never more than 30 s apart')
})

test('a look that fails for its length goes on in slices, the latest jobs first, until everything was seen', () => {
  let now = 0
  const cursors = new ScanCursors(['a'], () => now)
  const next = () => {
    now += 60_000
    const asked = cursors.next(10)
    assert.equal(asked.fromStart, true)
    return { asked, slice: (asked.walk as Look).dueForMs }
  }
  const whole = next()
  assert.equal(whole.slice, undefined)
  cursors.failed(whole.asked, 10_000)

  const first = next()
  assert.equal(first.slice!.from, 0)
  cursors.failed(first.asked, 10_000)
  const second = next()
  assert.equal(second.slice!.from, 0)
  assert.ok(second.slice!.to < first.slice!.to, 'what failed is cut again')
  const learn = (asked: Asked, jobs: ClaimedJob[], walkMs: number) =>
    cursors.learn(asked, { jobs, limit: 10, walkMs, at: NEW_YEAR })
  assert.equal(learn(second.asked, [aJob('a')], 2_000).nothingElse, false)

  let end = second.slice!.to
  let slices = 0
  for (let asked = next(); ; asked = next(), slices++) {
    if (asked.slice === undefined || asked.slice.from === 0) break
    assert.equal(asked.slice.from, end, 'nothing is left out')
    end = asked.slice.to
    assert.equal(learn(asked.asked, [], 500).nothingElse, false, 'there was a job in one of them')
    assert.ok(slices < 100)
  }
  assert.ok(end > 31_536_000_000, 'also what has been due for years')
})

test('when all slices together are quick, looks are whole again, and an empty round is the end of a drain', () => {
  let now = 0
  const cursors = new ScanCursors(['a'], () => now)
  cursors.failed(cursors.next(10), 10_000)
  let nothingElse = false
  for (let slices = 0; !nothingElse; slices++) {
    now += 60_000
    const asked = cursors.next(10)
    assert.notEqual((asked.walk as Look).dueForMs, undefined)
    nothingElse = cursors.learn(asked, { jobs: [], limit: 10, walkMs: 1, at: NEW_YEAR }).nothingElse
    assert.ok(slices < 100)
  }
  now += 60_000
  assert.equal((cursors.next(10).walk as Look).dueForMs, undefined)
})
