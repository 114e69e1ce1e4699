// `npm run demo:workflow`, run for real: a workflow charges every order once, and the same as one plain job does not. Both run at the
// same time, since each takes twenty seconds.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ALL_ORDERS, ORDERS } from '../demo/workflow/scale.ts'
import { checkInterrupt, checkUsage, Demo } from './support/demo.ts'

const PROGRAM = 'demo/workflow/run.ts'

test('killed workers and a deploy in the middle: a workflow does everything once, a plain job does not', async (t) => {
  const [demo, byHand] = [new Demo(t, PROGRAM), new Demo(t, PROGRAM, '--unprotected')]
  assert.equal(await demo.ended, 0, demo.output)
  const isAsExpected = (what: string, expected: number) =>
    assert.deepEqual(demo.verdict(what), [expected, expected, '✓'], what)
  isAsExpected('orders charged once', ALL_ORDERS)
  isAsExpected('orders booked once in the database', ALL_ORDERS)
  isAsExpected('orders shipped, their customers notified once', ALL_ORDERS - 1)
  isAsExpected('orders never shipped, refunded once', 1)
  isAsExpected('the same, their goods released once, after the refund', 1)
  isAsExpected('runs of version 1', ORDERS[1])
  isAsExpected('fraud checks, all of version 2', ORDERS[2])
  isAsExpected('second signals, dropped', ALL_ORDERS - 1)
  isAsExpected('signals after the end, refused', 1)
  // The mishaps have happened.
  assert.equal(demo.output.match(/^.*kill -9: /gm)?.length, 3, demo.output)
  const [, repeated] = /called\s+\d+\s+times,\s+(\d+)/.exec(demo.output) ?? []
  assert.ok(Number(repeated) >= 5, 'four charges and a refund')
  assert.ok(!demo.output.includes('\x1b'), 'without a terminal there are no escape codes')
  for (const line of demo.output.split('\n')) assert.ok(line.length <= 100, line)

  assert.equal(await byHand.ended, 1, byHand.output)
  const [twice, , mark] = byHand.verdict('orders charged twice or more')
  assert.ok((twice as number) >= ORDERS[1] && mark === '✗', byHand.output)
  await Promise.all([demo.untilGone(), byHand.untilGone()])
})

test('Ctrl-C leaves nothing behind', (t) => checkInterrupt(t, PROGRAM, 'kill -9: worker 1'))

test('the demo prints its usage, and refuses unknown arguments', (t) => checkUsage(t, PROGRAM, 'demo:workflow'))
