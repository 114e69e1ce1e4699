// Keys that wait for long: what a worker announces, and what it does about them.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Lane } from '../../src/db/lane.ts'
import { kind, queue } from '../../src/index.ts'
import { longWaitingKeys } from '../../src/jobs/order.ts'
import { WaitingKeys } from '../../src/worker/waiting-keys.ts'
import { broken, claimRuns } from '../support/order.ts'
import { scene } from '../support/worker.ts'

const step = kind<number>('step', { ordered: true })
/** Not by hand, which would begin duties beside the test. */
const STEPS = { queues: ['step'], kinds: ['step'] }

async function waitingScene(t: Parameters<typeof scene>[0]) {
  const { db, lh } = await scene(t)
  await lh.configure([queue('step', { ordered: true })])
  for (const n of [1, 2, 3]) await lh.enqueue(step, n, { partitionKey: 'order:1' })
  const emitted: Record<string, unknown>[] = []
  const events = { emit: (name: string, event: object) => emitted.push({ ...event, name }), log: () => {} }
  const lane = new Lane(db.pool)
  return { db, lh, lane, emitted, keys: new WaitingKeys(lane, ['step'], events as never) }
}

test('a key that waits for five minutes behind the same job is announced once', async (t) => {
  const { db, lane, emitted, keys } = await waitingScene(t)
  const [job] = await claimRuns(lane, { ...STEPS, runLength: 1 })
  await db.clock.advance('4 min')
  await keys.look()
  assert.deepEqual(emitted, [])
  await db.clock.advance('2 min')
  await keys.look()
  await keys.look()
  assert.equal(emitted.length, 1)
  const { name, partitionKey, waiting, jobId, why } = emitted[0]!
  assert.deepEqual([name, partitionKey, waiting, jobId, why], ['key_waiting', 'order:1', 2, job!.jobId, 'processing'])
})

test('a key whose first job was deleted by hand goes on after five minutes', async (t) => {
  const { db, lh, lane, keys } = await waitingScene(t)
  await db.pool.query('delete from leasehold.job where id = (select min(id) from leasehold.job)')
  await lh.enqueue(step, 4, { partitionKey: 'order:1' })
  const claimed = async () => (await claimRuns(lane, STEPS)).map(({ payload }) => payload)
  assert.deepEqual(await claimed(), [], 'nothing has let the second in')
  await db.clock.advance('6 min')
  assert.equal((await longWaitingKeys(lane, ['step'], 300_000)).length, 1)
  await keys.look()
  assert.deepEqual(await claimed(), ['2'])
  assert.deepEqual(await broken(db), [])
})
