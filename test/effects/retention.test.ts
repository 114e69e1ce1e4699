// Effects are kept while their job can run again, and for a retention after that.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Lane } from '../../src/db/lane.ts'
import { pruneEffects } from '../../src/effects/ledger.ts'
import { handle } from '../../src/index.ts'
import { claimed, failureOf, ledger, task } from '../support/effects.ts'
import { until } from '../support/until.ts'
import { count, scene } from '../support/worker.ts'

const HOURS_72 = 72 * 3_600_000

test('old effects of finished jobs go; recent ones stay, and those of jobs that can run again', async (t) => {
  const { lh, db } = await scene(t)
  const lane = new Lane(db.pool)
  const [completed, dead, waiting, running] = [
    await claimed(lh),
    await claimed(lh),
    await claimed(lh),
    await claimed(lh),
  ]
  for (const job of [completed, dead, waiting, running]) await job.once('charge', () => 1)
  await failureOf(completed.once('mail', () => Promise.reject(new Error('x')))) // Begun, and never finished.
  await completed.complete()
  await dead.bury('x')
  await waiting.snooze('30d')
  await db.clock.advance('71 hours')
  assert.equal((await pruneEffects(lane, HOURS_72)).pruned, 0)
  const recent = await claimed(lh)
  await recent.once('mail', () => 1)
  await recent.complete()
  await db.clock.advance('2 hours')
  assert.deepEqual(await ledger(lh, completed), ['charge done by 1', 'mail started by 1'])
  assert.equal((await pruneEffects(lane, HOURS_72)).pruned, 2)
  assert.deepEqual(await ledger(lh, completed), [])
  assert.deepEqual(await ledger(lh, recent), ['mail done by 1'])
  for (const job of [dead, waiting, running]) assert.deepEqual(await ledger(lh, job), ['charge done by 1'])
})

test('effects are pruned a bounded number at a time, and none is skipped', async (t) => {
  const { lh, db } = await scene(t)
  const lane = new Lane(db.pool)
  const held = await claimed(lh)
  await held.once('charge', () => 1)
  await db.pool.query(`insert into leasehold.effect (job_id, name, lease_generation, salt, started_at)
    select 1000 + n / 3, n::text, 1, 0, leasehold.clock() - interval '4 days' from generate_series(0, 29) n`)
  let rounds = 0
  let pruned = 0
  let after: Parameters<typeof pruneEffects>[2] = '0'
  while (after !== undefined) {
    const answer: Awaited<ReturnType<typeof pruneEffects>> = await pruneEffects(lane, HOURS_72, after, 4)
    rounds++
    pruned += answer.pruned
    after = answer.next
  }
  assert.ok(rounds > 5)
  assert.deepEqual([pruned, await count(db, 'from leasehold.effect')], [30, 1])
})

for (const [retention, age] of [
  [{}, '73 hours'],
  [{ effects: '1h' }, '61 minutes'],
] as const) {
  test(`a worker prunes effects after ${retention.effects ?? '72h, the default'}`, async (t) => {
    const { lh, db, worker } = await scene(t, { retention })
    await lh.configure([])
    const job = await claimed(lh)
    await job.once('charge', () => 1)
    await job.complete()
    assert.equal((await lh.drain([handle(task, () => {})])).completed, 0)
    assert.equal(await count(db, 'from leasehold.effect'), 1)
    await db.clock.advance(age)
    worker([handle(task, () => {})])
    await until('the effect is pruned', async () => (await count(db, 'from leasehold.effect')) === 0)
  })
}
