// The demo is run as `npm run demo` runs it, without a terminal. It has no time limit here but its own.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ALL_ORDERS, CONCURRENCY } from '../demo/scale.ts'
import { Shop } from '../demo/shop.ts'
import { findings } from '../demo/verdict.ts'
import { freshDatabase } from './support/database.ts'
import { checkInterrupt, Demo } from './support/demo.ts'

const PROGRAM = 'demo/run.ts'

test('every order gets its receipt, none gets two, and nothing is left behind', async (t) => {
  const demo = new Demo(t, PROGRAM)
  assert.equal(await demo.ended, 0, demo.output)
  const { output } = demo
  assert.deepEqual(demo.verdict('orders paid'), [ALL_ORDERS, ALL_ORDERS, '✓'])
  assert.deepEqual(demo.verdict('jobs stored with them'), [ALL_ORDERS, ALL_ORDERS, '✓'])
  assert.deepEqual(demo.verdict('receipts sent'), [ALL_ORDERS - 1, ALL_ORDERS - 1, '✓'])
  assert.deepEqual(demo.verdict('receipts sent twice'), [0, 0, '✓'])
  assert.deepEqual(demo.verdict('receipts lost'), [0, 0, '✓'])
  assert.deepEqual(demo.verdict('receipts taken over from the killed and the paused worker'), [
    2 * CONCURRENCY,
    2 * CONCURRENCY,
    '✓',
  ])
  assert.deepEqual(demo.verdict('late finishes of the paused worker, refused'), [CONCURRENCY, CONCURRENCY, '✓'])
  assert.deepEqual(demo.verdict('enqueued again after a lost reply, answered "existing"'), [1, 1, '✓'])
  assert.deepEqual(demo.verdict('dead letters: an address that cannot be used'), [1, 1, '✓'])
  assert.ok(!output.includes('\x1b'), 'without a terminal there are no escape codes')
  await demo.untilGone()
})

test('without the fence receipts are sent twice, and the demo fails', async (t) => {
  const demo = new Demo(t, PROGRAM, '--unfenced')
  assert.equal(await demo.ended, 1, demo.output)
  const [twice, , mark] = demo.verdict('receipts sent twice') as [number, number, string]
  // Those of the paused worker, and of any other that got no time for the length of its lease.
  assert.ok(twice >= CONCURRENCY, `${twice}`)
  assert.equal(mark, '✗')
  assert.deepEqual(demo.verdict('late finishes of the paused worker, refused'), [0, CONCURRENCY, '✗'])
  await demo.untilGone()
})

test('Ctrl-C leaves nothing behind', (t) => checkInterrupt(t, PROGRAM, 'kill -9: worker 2'))

test('kill -9 leaves nothing behind either, not even the worker that stands still', async (t) => {
  const demo = new Demo(t, PROGRAM)
  await demo.printed('SIGSTOP: worker 3')
  demo.kill('SIGKILL')
  await demo.untilGone()
})

test('the verdict finds a receipt that is missing and one that is there twice', async (t) => {
  const { url } = await freshDatabase(t)
  const shop = await Shop.open(url)
  t.after(() => shop.close())
  await shop.takeOrders(3)
  await shop.pool.query(`insert into receipt values (1, 1, 'worker'), (2, 1, 'worker'), (2, 2, 'worker')`)
  const found = new Map((await findings(shop.pool)).map((finding) => [finding.what, finding.found]))
  assert.equal(found.get('orders paid'), 3)
  assert.equal(found.get('receipts sent'), 3)
  assert.equal(found.get('receipts sent twice'), 1)
  assert.equal(found.get('receipts lost'), 1)
})
