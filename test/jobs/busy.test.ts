import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Lane } from '../../src/db/lane.ts'
import { clearBusy, fleetOf, markBusy } from '../../src/jobs/wake.ts'
import { suiteDatabase } from '../support/database.ts'
import { session } from '../support/queue.ts'

const db = await suiteDatabase()

test('a mark and its end wait for no session: they pass over rows that another has locked', async () => {
  const lane = new Lane(db.pool)
  await markBusy(lane, ['task', 'other'], 3_600_000)
  const { client } = await session(db)
  await client.query("begin; select from leasehold.busy where queue = 'task' for update")
  await clearBusy(lane, ['task', 'other'])
  await markBusy(lane, ['task', 'third'], 3_600_000)
  await client.query('rollback')
  const { rows } = await db.pool.query(
    'select queue, until > leasehold.clock() as busy from leasehold.busy order by queue',
  )
  assert.deepEqual(rows, [
    { queue: 'other', busy: false },
    { queue: 'task', busy: true },
    { queue: 'third', busy: true },
  ])
  await clearBusy(lane, ['task', 'third'])
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
  assert.equal(await fleetOf(new Lane(db.pool), ['f']), 2)
})
