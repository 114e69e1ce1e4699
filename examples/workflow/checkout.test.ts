// checkout.test.ts
import assert from 'node:assert/strict'
import { after, beforeEach, mock, test } from 'node:test'
import { Leasehold } from 'leasehold'
import { killAt, testClock } from 'leasehold/testing'
import { handleRuns, signal, start } from 'leasehold/workflow'
import pg from 'pg'
import { checkout } from './checkout.js'
import { services } from './services.js'

const pool = new pg.Pool({ connectionString: process.env.TEST_DATABASE_URL })
const leasehold = new Leasehold({ pool, log: () => {} })
await leasehold.migrate()
await pool.query('create table if not exists booking (order_id integer not null, cents integer not null)')
const clock = await testClock(leasehold)
after(() => pool.end())

const handlers = [handleRuns(checkout)]
/** Calls of the services: `charge 1 key`. */
let calls: string[] = []
let order = Date.now() % 1e9

beforeEach(() => {
  calls = []
  order++
  for (const name of ['reserve', 'charge', 'notify', 'refund', 'release'] as const) {
    mock.method(services, name, async (_order: number, key: string) => void calls.push(`${name} ${key}`))
  }
})

const startOne = () => start(leasehold, checkout, { order, cents: 1999 }, { runId: `order-${order}` })
const names = () => calls.map((call) => call.split(' ')[0])

test('an order that is shipped is charged, and its customer notified', async () => {
  const run = await startOne()
  await signal(leasehold, checkout, run.runId, 'shipped', { parcel: 'a-parcel' })
  const { result } = await clock.runToEnd(handlers, run)
  assert.equal(result, 'shipped as a-parcel')
  assert.deepEqual(names(), ['reserve', 'charge', 'notify'])
})

test('an order that is not shipped within a week is undone, the last step first', async () => {
  const { status, reason } = await clock.runToEnd(handlers, await startOne()) // Takes no week.
  assert.deepEqual([status, reason], ['cancelled', 'never shipped'])
  assert.deepEqual(names(), ['reserve', 'charge', 'refund', 'release'])
})

test('killed at any statement, an order is booked once and charged under one key', async () => {
  for (let n = 1, isOver = false; !isOver; n++, order++) {
    calls = []
    const run = await startOne()
    await signal(leasehold, checkout, run.runId, 'shipped', { parcel: 'a-parcel' })
    const kill = killAt(n)
    const { result } = await clock.runToEnd(handlers, run, { kill })
    assert.equal(result, 'shipped as a-parcel', `killed at statement ${n}`)
    const charges = calls.filter((call) => call.startsWith('charge'))
    assert.equal(new Set(charges).size, 1, `killed at statement ${n}: ${charges}`)
    const { rowCount } = await pool.query('select from booking where order_id = $1', [order])
    assert.equal(rowCount, 1, `killed at statement ${n}`)
    isOver = !kill.isDead
  }
})
