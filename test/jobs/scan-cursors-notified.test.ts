// Where a claim starts on a worker that is notified of new work, by a clock that the test moves.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ClaimedJob } from '../../src/jobs/job.ts'
import { ScanCursors } from '../../src/jobs/scan-cursors.ts'
import type { ScanStart } from '../../src/jobs/scan-walk.ts'
import type { StoredTime } from '../../src/jobs/stored-time.ts'

// 2030-01-01, as Postgres stores it.
const NEW_YEAR = '00035d15590f4000' as StoredTime

const aJob = (queue: string, priority = 5) =>
  ({ queue, priority, availableAt: NEW_YEAR, jobId: '7', line: 0 }) as ClaimedJob

test('a notified worker claims once, and looks again 250 ms after the last look', () => {
  let now = 0
  const cursors = new ScanCursors(['a'], () => now)
  const claim = (jobs: ClaimedJob[], limit = 10, walkMs = 0.1) => {
    const asked = cursors.next(limit)
    return { asked, ...cursors.learn(asked, { jobs, limit, walkMs, at: NEW_YEAR }) }
  }
  cursors.isNotified = true
  assert.equal(claim([aJob('a')]).asked.fromStart, true)
  for (let told = 0; told < 3; told++) {
    now += 80
    cursors.notified('a')
    const { asked, more } = claim([aJob('a')])
    assert.equal(asked.fromStart, false)
    assert.deepEqual(
      (asked.walk as ScanStart[]).map(({ priority, fromAt }) => `${priority} ${fromAt}`),
      ['5 2029-12-31 23:59:58.000000+00'],
    )
    assert.equal(more, false)
  }
  assert.equal(Math.round(cursors.lookDueInMs()), 10, 'what came later than two seconds late, or at a new priority')
  now += 10
  assert.equal(claim([]).asked.fromStart, true)

  now += 50
  claim([aJob('a')], 1)
  assert.equal(
    (cursors.next(1).walk as ScanStart[])[0]!.fromAt,
    '2030-01-01 00:00:00.000000+00',
    'there was more: from the mark',
  )
  cursors.notified('a')
  assert.ok(cursors.lookDueInMs() <= 0, 'and a wake-up may be about what lies behind it')
})

test('a start that makes walks expensive moves closer, until they are cheap', () => {
  let now = 0
  const cursors = new ScanCursors(['a'], () => now)
  cursors.isNotified = true
  const start = (walkMs: number) => {
    now += 1
    const asked = cursors.next(10)
    cursors.learn(asked, { jobs: [], limit: 10, walkMs, at: NEW_YEAR })
    return (asked.walk as ScanStart[])[0]?.fromAt
  }
  start(0.1)
  assert.equal(start(5), '2029-12-31 23:59:58.000000+00')
  assert.equal(start(5), '2029-12-31 23:59:59.000000+00')
  for (let walks = 0; walks < 20; walks++) start(5)
  assert.equal(start(0.1), '2029-12-31 23:59:59.990000+00')
  for (let walks = 0; walks < 100; walks++) start(0.1)
  assert.equal(start(0.1), '2029-12-31 23:59:58.000000+00')
})
