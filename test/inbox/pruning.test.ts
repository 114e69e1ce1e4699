// An event is forgotten after its transport can no longer redeliver it, and not before.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Lane } from '../../src/db/lane.ts'
import { Inbox } from '../../src/inbox/index.ts'
import { pruneInbox } from '../../src/inbox/pruning.ts'
import { handle, kind } from '../../src/index.ts'
import type { TestDatabase } from '../support/database.ts'
import { session } from '../support/queue.ts'
import { until } from '../support/until.ts'
import { codeOf, count, scene, statements } from '../support/worker.ts'

const DAY_MS = 86_400_000

/** No process takes the duty by itself. */
const noTurns = (db: TestDatabase) => db.pool.query(`delete from leasehold.duty where name = 'inbox'`)

test('an id must be kept for longer than its transport can redeliver it', async (t) => {
  const { lh } = await scene(t)
  const source = 'a'
  assert.equal(new Inbox(lh, { source }).keepMs, 15 * DAY_MS)
  assert.equal(new Inbox(lh, { source, redeliveredFor: '4d' }).keepMs, 5 * DAY_MS)
  assert.equal(new Inbox(lh, { source, redeliveredFor: '4d', keep: 4 * DAY_MS + 1 }).keepMs, 4 * DAY_MS + 1)
  for (const options of [
    { keep: '14d' },
    { redeliveredFor: '4d', keep: '4d' },
    { redeliveredFor: '4d', keep: '1h' },
  ] as const) {
    assert.equal(await codeOf(() => new Inbox(lh, { source, ...options })), 'INVALID_OPTION')
  }
})

test('an id is forgotten after the retention of its own source, and not before', async (t) => {
  const { lh, db } = await scene(t)
  await noTurns(db)
  const lane = new Lane(db.pool)
  const [orders, webhook] = [
    new Inbox(lh, { source: 'orders' }),
    new Inbox(lh, { source: 'webhook', redeliveredFor: '3d' }),
  ]
  await orders.once('e', () => {})
  await webhook.once('e', () => {})
  await db.clock.advance('3 days 23 hours')
  assert.equal(await pruneInbox(lane), 0)
  await db.clock.advance('2 hours')
  assert.equal(await pruneInbox(lane), 1)
  assert.equal((await webhook.once('e', () => 1)).outcome, 'applied')
  assert.equal((await orders.once('e', () => 1)).outcome, 'already_handled')
})

test('a redelivery in flight while its id is pruned finds the id until the prune has committed', async (t) => {
  const { lh, db } = await scene(t)
  await noTurns(db)
  const lane = new Lane(db.pool)
  const orders = new Inbox(lh, { source: 'orders', redeliveredFor: '1h', keep: '2h' })
  await orders.once('e', () => {})
  await db.clock.advance('3 hours')
  const [late, pruner] = [await session(db), await session(db)]
  await late.client.query('begin')
  assert.equal(await orders.firstTime(late.client, 'e'), false, 'it came first, so it is a duplicate')
  assert.equal(await pruneInbox(lane), 0, 'which the prune leaves until it has ended')
  await late.client.query('commit')

  await pruner.client.query('begin')
  assert.equal(await pruneInbox(new Lane(pruner.client)), 1)
  await late.client.query('begin')
  assert.equal(await orders.firstTime(late.client, 'e'), false, 'the prune has not committed')
  await pruner.client.query('commit')
  assert.equal(await orders.firstTime(late.client, 'e'), true, 'and now the event is forgotten')
  await late.client.query('commit')
})

test('a worker prunes all due ids in one turn, in batches', async (t) => {
  const { db, worker } = await scene(t)
  await db.pool.query(`insert into leasehold.inbox (source, event_id, received_at, forget_at)
    select 'orders', n::text, now(), now() + (case when n <= 25000 then -1 else 1 end) * interval '1 h'
    from generate_series(1, 25003) n`)
  worker([handle(kind('task'), () => {})])
  await until('only those that are not due are left', async () => (await count(db, 'from leasehold.inbox')) === 3)
})

test('a process that only receives prunes, too, and one process of all does in an interval', async (t) => {
  const { db, leasehold, undo } = await scene(t)
  const names = statements(undo)
  const sent = (name: string) => names.filter((each) => each === name).length
  const receive = async (id: string) => {
    const own = new Inbox(leasehold(), { source: 'orders', redeliveredFor: '1h', keep: '2h' })
    const before = sent('duty.take')
    await own.once(id, () => {})
    await until('it has asked for the duty', () => sent('duty.take') === before + 1)
  }
  await receive('first')
  await until('it prunes', () => sent('inbox.prune') === 1)
  await db.clock.advance('3 hours')
  await receive('second')
  await until('the first is forgotten', async () => (await count(db, 'from leasehold.inbox')) === 1)
  await db.clock.advance('5 min')
  await receive('third')
  await db.clock.advance('6 min')
  await receive('fourth')
  await until('it prunes', () => sent('inbox.prune') >= 3)
  assert.equal(sent('inbox.prune'), 3, 'the third was not due')
})
