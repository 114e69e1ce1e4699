// The statements of the ledger, one at a time: the checks of each before it changes anything.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { Lane } from '../../src/db/lane.ts'
import { begin, done, notDone, type Run, takeOver } from '../../src/effects/ledger.ts'
import { sweep } from '../../src/jobs/housekeeping.ts'
import type { ManualJob } from '../../src/worker/manual.ts'
import { waitUntilBlocked } from '../support/database.ts'
import { claimed, failureOf, ledger, returned, takenOver } from '../support/effects.ts'
import { session } from '../support/queue.ts'
import { scene } from '../support/worker.ts'

function run({ id, claimId, generation }: ManualJob): Run {
  return { lease: { jobId: id, claimId, generation }, name: 'charge', id: randomUUID() }
}

test('only the marker that was seen is taken over, and only by the job’s holder', async (t) => {
  const setting = await scene(t)
  const lane = new Lane(setting.db.pool)
  const first = await claimed(setting.lh)
  await failureOf(first.once('charge', () => Promise.reject(new Error('x'))))
  const [stale, fresh] = [run(first), run(await takenOver(setting))]
  const found = await begin(lane, fresh)
  assert.ok(found.state === 'started')
  assert.equal(await takeOver(lane, stale, found.by), 'refused')
  assert.equal(await takeOver(lane, fresh, randomUUID()), false)
  assert.equal(await takeOver(lane, fresh, found.by), true)
  assert.equal(await takeOver(lane, fresh, found.by), false, 'it is ours by now')
  await done(lane, fresh, null)
  assert.equal(await takeOver(lane, fresh, fresh.id), false, 'it is done')
})

test('an effect that is done stays done, also for the run that did it', async (t) => {
  const { lh, db } = await scene(t)
  const lane = new Lane(db.pool)
  const job = await claimed(lh)
  const own = run(job)
  await begin(lane, own)
  await done(lane, own, '"receipt"')
  await notDone(lane, own)
  assert.deepEqual(await ledger(lh, job), ['charge done by 1'])
})

test('taking over a marker locks the job row, and a sweep skips it', async (t) => {
  const setting = await scene(t)
  const { lh, db } = setting
  const job = await claimed(lh)
  const [found, own] = [run(job), run(job)]
  await begin(new Lane(db.pool), found)
  const { client, lane } = await session(db)
  await client.query('begin')
  assert.equal(await takeOver(lane, own, found.id), true)
  await db.clock.advance('31s')
  assert.deepEqual((await sweep(new Lane(db.pool))).jobs, [])
  await client.query('commit')
  await returned(db)
})

test('taking over a marker waits for a sweep of the job, and is refused', async (t) => {
  const { lh, db } = await scene(t)
  const job = await claimed(lh)
  const [found, own] = [run(job), run(job)]
  await begin(new Lane(db.pool), found)
  const [sweeper, late] = [await session(db), await session(db)]
  await sweeper.client.query('begin')
  await db.clock.advance('31s')
  assert.equal((await sweep(sweeper.lane)).jobs.length, 1)
  const taken = takeOver(late.lane, own, found.id)
  await waitUntilBlocked(await db.connect(), late.pid)
  await sweeper.client.query('commit')
  assert.equal(await taken, 'refused')
})
