// `npm run demo:fleet`, run for real: on the ring every account stays in order, and on a ring made by hand it does not.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { WORKERS } from '../demo/fleet/scale.ts'
import { checkInterrupt, checkUsage, Demo } from './support/demo.ts'

const PROGRAM = 'demo/fleet/run.ts'

test('workers join, are killed, stopped and replaced: the ring moves, and every account stays in order', async (t) => {
  const demo = new Demo(t, PROGRAM)
  assert.equal(await demo.ended, 0, demo.output)
  const [done, enqueued, mark] = demo.verdict('jobs done, of those that were enqueued')
  assert.ok((done as number) > 100 && done === enqueued && mark === '✓', demo.output)
  for (const what of [
    'jobs lost',
    'entries made twice',
    'entries after a later one of their account',
    'entries that overlap with another of their account',
    'entries made on a stale value in memory',
    'buckets that the deploy moved for good',
    'leases expired, or attempts spent, during the deploy',
  ]) {
    assert.deepEqual(demo.verdict(what), [0, 0, '✓'], what)
  }
  // The mishaps have happened, and memory was used.
  assert.match(demo.output, /kill -9: worker 3/)
  assert.match(demo.output, /is\s+refused,\s+[1-9]/)
  assert.equal(demo.output.match(/takes\s+its\s+seat\./g)?.length, WORKERS, demo.output)
  assert.match(demo.output, /^ {2}[1-9]\d* entries found the last one/m)
  // All buckets moved by a join went to the newcomer.
  assert.equal(demo.output.match(/buckets move, all of them to it/g)?.length, WORKERS, demo.output)
  assert.ok(!demo.output.includes('\x1b'), 'without a terminal there are no escape codes')
  for (const line of demo.output.split('\n')) assert.ok(line.length <= 100, line)
  await demo.untilGone()
})

test('a ring made by hand, without fence and order, enters bookings twice and late', async (t) => {
  const demo = new Demo(t, PROGRAM, '--unprotected')
  assert.equal(await demo.ended, 1, demo.output)
  for (const what of ['entries made twice', 'entries after a later one of their account']) {
    const [found, , mark] = demo.verdict(what)
    assert.ok((found as number) > 0 && mark === '✗', demo.output)
  }
  await demo.untilGone()
})

test('Ctrl-C leaves nothing behind', (t) => checkInterrupt(t, PROGRAM, 'worker 2 joins'))

test('the demo prints its usage, and refuses unknown arguments', (t) => checkUsage(t, PROGRAM, 'demo:fleet'))
