// `npm run demo:outbox`, run for real: with outbox and inbox nothing is lost or doubled, and without them the same story fails.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ACTS, ORDERS } from '../../demo/outbox/scale.ts'
import { checkInterrupt, checkUsage, Demo } from '../support/demo.ts'
import { needsNatsCluster } from '../support/optional-program.ts'

const PROGRAM = 'demo/outbox/run.ts'
const needed = await needsNatsCluster() // A server of its own, which it kills.

test(
  'killed tills, relays, receivers and brokers: each payment has one invoice and one shipment',
  needed,
  async (t) => {
    const demo = new Demo(t, PROGRAM)
    assert.equal(await demo.ended, 0, demo.output)
    const isAsExpected = (what: string, expected: number) =>
      assert.deepEqual(demo.verdict(what), [expected, expected, '✓'], what)
    isAsExpected('orders paid', ORDERS)
    for (const what of ['orders without an invoice', 'orders with two invoices or more']) isAsExpected(what, 0)
    for (const what of ['orders never shipped', 'orders shipped twice or more']) isAsExpected(what, 0)
    for (const receiver of ['billing', 'shipping']) {
      isAsExpected(`${receiver}: events published`, ORDERS)
      isAsExpected(`${receiver}: events received`, ORDERS)
      isAsExpected(`${receiver}: events missing`, 0)
      // The mishaps have happened: copies arrived, and were dropped.
      const [, duplicates] = new RegExp(`^  ${receiver} +\\d+ +(\\d+) \\(`, 'm').exec(demo.output) ?? []
      assert.ok(Number(duplicates) > 0, demo.output)
    }
    assert.match(demo.output, /of these,\s+0\s+orders\s+are\s+paid\s+and\s+0\s+events\s+exist/)
    assert.equal(demo.output.match(/^.*kill -9: /gm)?.length, 5, demo.output)
    assert.ok(!demo.output.includes('\x1b'), 'without a terminal there are no escape codes')
    for (const line of demo.output.split('\n')) assert.ok(line.length <= 100, line)
    await demo.untilGone()
  },
)

test('without outbox and inbox the demo loses and doubles', needed, async (t) => {
  const demo = new Demo(t, PROGRAM, '--unprotected')
  assert.equal(await demo.ended, 1, demo.output)
  const damage = (what: string) => {
    const [found, , mark] = demo.verdict(what) as [number, number, string]
    assert.equal(mark, '✗', what)
    return found
  }
  assert.ok(damage('orders without an invoice') > ACTS.brokers, 'those of the outage, and those of the killed till')
  assert.ok(damage('orders never shipped') > ACTS.brokers)
  assert.ok(damage('orders with two invoices or more') > 1, 'of the killed receiver, and of the lost reply')
  assert.ok(damage('orders shipped twice or more') > 0)
  await demo.untilGone()
})

test('Ctrl-C leaves nothing behind', needed, (t) => checkInterrupt(t, PROGRAM, 'Act 2, the relay'))

test('the demo prints its usage, and refuses unknown arguments', (t) => checkUsage(t, PROGRAM, 'demo:outbox'))
