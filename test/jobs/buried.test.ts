// The report about jobs that housekeeping made dead letters.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Lane } from '../../src/db/lane.ts'
import { buried, expire, sweep } from '../../src/jobs/housekeeping.ts'
import { settle } from '../../src/jobs/outcome.ts'
import { countingDatabase } from '../support/database.ts'
import { claimNext, enqueueOne, newWorker } from '../support/queue.ts'

test('a job buried by the sweep is reported with its last error, an expired one without, others not', async (t) => {
  const db = await countingDatabase(t)
  await db.clock.set('2030-01-01T00:00:00Z')
  const lane = new Lane(db.pool)
  const worker = newWorker()
  const crashed = await enqueueOne(lane, { maxAttempts: 3 })
  for (const message of ['the first', 'the last']) {
    const [job] = await claimNext(lane, { worker })
    await settle(lane, worker, [{ ...job!, verb: 'fail', error: new Error(message), delayMs: 0 }])
  }
  await claimNext(lane) // By a worker that holds nothing else, so the job is to blame.
  const late = await enqueueOne(lane, { queue: 'late', expiresAt: new Date('2030-01-01T00:00:10Z') })
  const alive = await enqueueOne(lane)
  await db.clock.advance('31 s')
  const { jobs } = await sweep(lane)
  assert.deepEqual(
    jobs.map(({ jobId, outcome }) => [jobId, outcome]),
    [[crashed, 'dead_letter']],
  )
  assert.deepEqual(await expire(lane), [late])
  const told = await buried(lane, [crashed, late, alive])
  const byId = new Map(told.map(({ error, ...letter }) => [letter.jobId, { ...letter, error: error?.message }]))
  assert.equal(told.length, 2)
  assert.deepEqual(byId.get(crashed), {
    jobId: crashed,
    kind: 'mail',
    queue: 'mail',
    partitionKey: null,
    generation: 3,
    attempt: 3,
    reason: 'lease_expired',
    error: 'the last',
  })
  assert.deepEqual(byId.get(late), {
    jobId: late,
    kind: 'mail',
    queue: 'late',
    partitionKey: null,
    generation: 0,
    attempt: 0,
    reason: 'expired',
    error: undefined,
  })
})
