import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Lane } from '../../src/db/lane.ts'
import { clearBusy, fleetOf, markBusy } from '../../src/jobs/wake.ts'
import { suiteDatabase, waitUntilBlocked } from '../support/database.ts'
import { session } from '../support/queue.ts'

const db = await suiteDatabase()

test('a worker that cursors queues as busy and one that clears them do not deadlock', async () => {
  const lane = new Lane(db.pool)
  // The order of the rows in the table, in which the clearing finds them, is not that of their names.
  for (const queue of ['b', 'a']) await markBusy(lane, [queue], 3_600_000)
  const [keeper, cursors, clears] = await Promise.all([session(db), session(db), session(db)])
  await clears.client.query('set enable_indexscan = off')
  await keeper.client.query("begin; select from leasehold.busy where queue = 'a' for update")
  const marking = markBusy(cursors.lane, ['a', 'b'], 3_600_000)
  await waitUntilBlocked(keeper.client, cursors.pid)
  const clearing = clearBusy(clears.lane, ['a', 'b'])
  const settled = Promise.allSettled([marking, clearing])
  await Promise.race([clearing.catch(() => {}), waitUntilBlocked(keeper.client, clears.pid)])
  await keeper.client.query('commit')
  assert.deepEqual(
    (await settled).map(({ status }) => status),
    ['fulfilled', 'fulfilled'],
  )
})

test('a queue that is no longer busy is marked free', async () => {
  const lane = new Lane(db.pool)
  await markBusy(lane, ['c', 'd'], 3_600_000)
  await clearBusy(lane, ['c'])
  const { rows } = await db.pool.query(
    "select queue from leasehold.busy where until > leasehold.clock() and queue > 'b'",
  )
  assert.deepEqual(rows, [{ queue: 'd' }])
})

test('a fleet is the workers that claim from the queue: not those that drain, died, stopped or claim by hand', async () => {
  const add = (queue: string, ended?: 'draining_at' | 'dead_at' | 'stopped_at', mode = 'worker') =>
    db.pool.query(
      `insert into leasehold.worker (id, label, version, mode, kinds, queues, started_at, last_seen_at, ${ended ?? 'draining_at'})
       values (gen_random_uuid(), 'w', '0', $2, '{}', array['also', $1], now(), now(), case when $3 then now() end)`,
      [queue, mode, ended !== undefined],
    )
  await add('f')
  await add('f')
  await add('f', 'draining_at')
  await add('f', 'dead_at')
  await add('f', 'stopped_at')
  await add('f', undefined, 'by_hand')
  await add('f', undefined, 'once')
  await add('g')
  assert.equal(await fleetOf(new Lane(db.pool), 'f'), 2)
})
