// Producers publish and read no event; workers relay without owning a table; readers see the lag.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import pg from 'pg'
import { Inbox } from '../../src/inbox/index.ts'
import { withTransaction } from '../../src/index.ts'
import { deliver, destination, Outbox } from '../../src/outbox/index.ts'
import { urlAs, withRoles } from '../support/roles.ts'
import { until } from '../support/until.ts'
import { codeOf } from '../support/worker.ts'
import { scripted } from './scene.ts'

const REFUSED = '42501'

test('a producer publishes and reads no event, a worker relays, and a reader sees the lag', async (t) => {
  const { db, as, client, roles, owner } = await withRoles(t)
  const billing = destination('billing', { transport: 'in_process', onDeadLetter: 'park' })
  await new Outbox(owner).configure([billing])
  const producer = new Outbox(as('producer'), { source: '/test' })
  const pool = new pg.Pool({ connectionString: urlAs(db, roles.producer) })
  await withTransaction(pool, (tx) => producer.publish(tx, { type: 'a', key: 'k', data: 1 }))
  await pool.end()
  const session = await client('producer')
  await session.query('select leasehold.publish($1)', [{ type: 'a', source: '/sql', partitionkey: 'k' }])
  for (const statement of [
    'select data from leasehold.event',
    'select id from leasehold.event',
    'delete from leasehold.event',
    "update leasehold.event set type = 'b'",
    'select * from leasehold.destinations',
    "insert into leasehold.destination values ('x', 'y', null, 1)",
    "select leasehold.replay('billing', '-infinity', 'infinity', null, null, 0, 10)",
  ]) {
    assert.equal(await codeOf(() => session.query(statement)), REFUSED, statement)
  }
  assert.equal(await codeOf(() => producer.configure([billing])), REFUSED)
  const reader = new Outbox(as('reader'))
  assert.equal((await reader.lag())[0]!.unsent, 2)
  const inbox = new Inbox(as('reader'), { source: 'shop' })
  const asking = { destination: billing, from: new Date(0), received: inbox.receipts.bind(inbox), within: 0 }
  assert.equal((await reader.reconcile(asking)).unsent, 2)
  assert.equal(await codeOf(() => reader.replay({ destination: billing, from: new Date(0) })), REFUSED)

  const transport = scripted()
  const outbox = new Outbox(as('worker'))
  const relay = outbox.relay([deliver(billing, transport)], { signals: [], poll: 20 })
  const running = relay.run()
  await until('both are sent', () => relay.worker.tally.completed === 2)
  assert.equal(await outbox.replay({ destination: billing, from: new Date(0) }), 2)
  await until('both are sent again', () => relay.worker.tally.completed === 4)
  await relay.stop()
  await running
  assert.equal(new Set(transport.batches.flat().map(({ id }) => id)).size, 2)
})
