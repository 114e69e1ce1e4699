// A claim that the database refuses to sweep, for what is in it.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { Lane } from '../../src/db/lane.ts'
import { sweep } from '../../src/jobs/housekeeping.ts'
import { freshDatabase, waitUntilBlocked } from '../support/database.ts'
import { claimNext, enqueueMany, enqueueOne, session } from '../support/queue.ts'

/** Two expired claims; the sweep fails with the older one, since the dead letter that it would write is there already. */
async function claimThatCannotBeSwept(t: TestContext) {
  const db = await freshDatabase(t)
  const lane = new Lane(db.pool)
  const stuck = await enqueueOne(lane, { maxAttempts: 1 })
  const [job] = await claimNext(lane)
  await enqueueMany(lane, 3)
  await claimNext(lane, { limit: 3 })
  // As a sequence that was set back leaves it behind.
  await db.pool.query(
    `insert into leasehold.dead_letter (id, died_at, available_at, created_at, lease_generation, attempts, max_attempts,
       crashes, priority, partition_bucket, salt, queue, kind, reason, payload)
     values ($1, now(), now(), now(), 1, 1, 1, 0, 5, 0, 0, 'mail', 'mail', 'fatal', '1')`,
    [stuck],
  )
  await db.clock.advance('31 s')
  return { db, lane, stuck, claimId: job!.claimId }
}

test('a claim that cannot be swept is reported, and does not keep the sweep from the others', async (t) => {
  const { db, lane, stuck } = await claimThatCannotBeSwept(t)
  await assert.rejects(sweep(lane), { code: '23505' })
  assert.equal((await sweep(lane)).jobs.length, 3)
  await db.pool.query('delete from leasehold.dead_letter')
  await db.clock.advance('61 s')
  assert.deepEqual(
    (await sweep(lane)).jobs.map(({ jobId, outcome }) => [jobId, outcome]),
    [[stuck, 'dead_letter']],
  )
})

test('a claim that cannot be swept is reported although the server has answered and not yet rolled back', async (t) => {
  const { db, claimId } = await claimThatCannotBeSwept(t)
  // What was locked before the savepoint stays locked when the sweep has failed, until the rollback.
  const [failed, next] = [await session(db), await session(db)]
  await failed.client.query('begin')
  await failed.client.query('select from leasehold.claim where id = $1 for update', [claimId])
  await failed.client.query('savepoint before_sweep')
  const observer = await db.connect()
  let statements = 0
  const lane = new Lane({
    query: async (statement) => {
      statements++
      if (statements === 1) return failed.client.query(statement)
      const answer = next.client.query(statement)
      if (statements === 2) {
        await Promise.race([answer.catch(() => {}), waitUntilBlocked(observer, next.pid)])
        await failed.client.query('rollback')
      }
      return answer
    },
  })
  await assert.rejects(sweep(lane), { code: '23505' })
  assert.equal((await sweep(lane)).jobs.length, 3)
})
