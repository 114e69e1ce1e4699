// A row that is not in the wanted status has yet to reach it, or has passed it: by arrows and phases.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { statusTable } from '../../src/tables/index.ts'
import { freshDatabase } from '../support/database.ts'

const NOT_READY = 'not_ready'
const HANDLED = 'already_handled'

const orders = statusTable('orders', {
  arrows: { draft: ['pending', 'void'], pending: ['paid'], paid: ['shipped', 'lost'], shipped: ['returned'] },
})
const doors = statusTable('orders', { phases: false, arrows: { ajar: ['open'], open: ['shut'], shut: ['open'] } })
const oddly = statusTable('orders', { arrows: { constructor: ['toString'], toString: ['pending'], pending: ['done'] } })

test('a row that may yet reach the status is not ready; one past it, beside it or in a cycle is already handled', async (t) => {
  const { pool } = await freshDatabase(t)
  await pool.query(`create table orders (id integer primary key, status text, claim_token text, claim_expires_at timestamptz,
    retry_at timestamptz);
    insert into orders values (1)`)
  const is = (status: string) => pool.query('update orders set status = $1', [status])
  for (const [outcome, statuses] of [
    [NOT_READY, ['draft', 'pending', 'processing', 'error']],
    [HANDLED, ['shipped', 'returned', 'lost', 'completed', 'void']],
  ] as const) {
    for (const status of statuses) {
      await is(status)
      const expected = { outcome, status }
      assert.deepEqual(await orders.transition(pool, 1, 'paid', 'shipped'), expected)
      assert.deepEqual(await orders.look(pool, 1, 'paid'), expected)
    }
  }
  // A row must be pending to be claimed. A failed row was pending, and will be again.
  for (const [outcome, statuses] of [
    [NOT_READY, ['draft']],
    [HANDLED, ['processing', 'error', 'completed', 'paid', 'shipped']],
  ] as const) {
    for (const status of statuses) {
      await is(status)
      assert.deepEqual(await orders.claim(pool, 1), { outcome, status })
      assert.deepEqual(await orders.work(pool, 1, () => assert.fail('it is not ours')), { outcome, status })
    }
  }
  await is('shut')
  assert.deepEqual(await doors.transition(pool, 1, 'open', 'shut'), { outcome: HANDLED, status: 'shut' })
  await is('ajar')
  assert.deepEqual(await doors.look(pool, 1, 'open'), { outcome: NOT_READY, status: 'ajar' })
  assert.deepEqual(await doors.look(pool, 2, 'open'), { outcome: 'not_found' })
  await is('open')
  assert.deepEqual(await doors.look(pool, 1, 'open'), { outcome: 'ready' })
})

test('a status may be named like a property of every object', async (t) => {
  const { pool } = await freshDatabase(t)
  await pool.query(`create table orders (id integer, status text); insert into orders values (1, 'constructor')`)
  const expected = { outcome: NOT_READY, status: 'constructor' }
  assert.deepEqual(await oddly.transition(pool, 1, 'pending', 'done'), expected)
  assert.deepEqual(await oddly.transition(pool, 1, 'constructor', 'toString'), { outcome: 'applied' })
})

test('an undeclared status is not ready, because it may not be past', async (t) => {
  const { pool } = await freshDatabase(t)
  await pool.query(`create table orders (id integer primary key, status text, claim_token text, claim_expires_at timestamptz,
    retry_at timestamptz);
    insert into orders values (1)`)
  const effect = () => assert.fail('it is not ours')
  for (const status of ['PENDING', 'new', '', 'toString']) {
    await pool.query('update orders set status = $1', [status])
    const expected = { outcome: NOT_READY, status }
    assert.deepEqual(await orders.transition(pool, 1, 'paid', 'shipped'), expected)
    assert.deepEqual(await orders.look(pool, 1, 'paid'), expected)
    assert.deepEqual(await orders.claim(pool, 1), expected)
    assert.deepEqual(await orders.work(pool, 1, effect), expected)
  }
  // Those of phases are declared, if only by default; a table without phases does not know them.
  for (const [status, outcome] of [
    ['processing', HANDLED],
    ['error', HANDLED],
    ['completed', HANDLED],
  ] as const) {
    await pool.query('update orders set status = $1', [status])
    assert.deepEqual(await orders.claim(pool, 1), { outcome, status })
    assert.deepEqual(await doors.look(pool, 1, 'open'), { outcome: NOT_READY, status })
  }
})
