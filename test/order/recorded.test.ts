// The jobs of a run are recorded in the order in which they ran, whatever is locked or swept meanwhile.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { claimSuspects, newClaimId } from '../../src/jobs/claim.ts'
import { complete, MANY, turn } from '../../src/jobs/completion.ts'
import { sweep } from '../../src/jobs/housekeeping.ts'
import type { TestDatabase } from '../support/database.ts'
import { claimRun, claimRuns, enqueueInKey, idsOf, nothingLeft, orderedQueue } from '../support/order.ts'
import { completeAll, jobRow, LEASE_MS, newWorker, session } from '../support/queue.ts'

const worker = newWorker()

test('a job of a run is not recorded before one that ran before it', async (t) => {
  const { db, lane } = await orderedQueue(t)
  const ids = await enqueueInKey(lane, 3)
  const run = await claimRun(lane, { worker })
  const other = await session(db)
  await other.client.query('begin')
  await other.client.query('select from leasehold.job where id = $1 for update', [ids[0]])
  const statements = {
    complete: () => complete(lane, worker, run.slice(0, 2)),
    'the second alone': () => complete(lane, worker, run.slice(1, 2)),
    turn: async () => {
      const request = { claimId: newClaimId(), worker, kinds: ['mail'], limit: 1, leaseMs: LEASE_MS, runLength: 1 }
      return (await turn(lane, run.slice(0, 2), request, { queues: ['mail'] })).notWritten
    },
  }
  for (const [name, send] of Object.entries(statements)) {
    const { refused, busy } = await send()
    assert.deepEqual(refused, [], name)
    assert.ok(busy.length > 0, name)
    assert.deepEqual((await claimedIds(db)).sort(), [...ids].sort(), `${name}: nothing is recorded`)
  }
  await other.client.query('rollback')
  assert.deepEqual((await complete(lane, worker, run)).busy, [])
  await nothingLeft(db)
})

test('a job of a run is not recorded when the sweep has returned one that ran before it', async (t) => {
  const { db, lane } = await orderedQueue(t)
  const ids = await enqueueInKey(lane, 3)
  const run = await claimRun(lane, { worker })
  const handler = await session(db)
  await handler.client.query('begin')
  await handler.client.query('select from leasehold.job where id = $1 for share', [ids[1]]) // job.assertLease(tx)
  await db.clock.advance(`${LEASE_MS + 1}ms`)
  await sweep(lane)
  await handler.client.query('commit')

  const others = Array.from({ length: MANY }, (_, n) => `key:${n}`)
  for (const partitionKey of others) await enqueueInKey(lane, 1, { partitionKey })
  const many = await claimRuns(lane, { worker, limit: MANY })
  const send = {
    complete: () => complete(lane, worker, run.slice(1, 2)),
    many: () => complete(lane, worker, [...run.slice(1, 2), ...many.splice(0, MANY)]),
    turn: async () => {
      const request = { claimId: newClaimId(), worker, kinds: ['mail'], limit: 1, leaseMs: LEASE_MS, runLength: 1 }
      return (await turn(lane, run.slice(1, 2), request, { queues: ['nothing'] })).notWritten
    },
  }
  const notRecorded = async () => {
    for (const [name, sent] of Object.entries(send)) {
      assert.deepEqual(idsOf((await sent()).busy), [ids[1]], name)
      assert.ok(await jobRow(db, ids[1]!), name)
    }
  }
  await notRecorded()
  const suspects = () => {
    const request = { claimId: newClaimId(), worker, kinds: ['mail'], limit: 10, leaseMs: LEASE_MS }
    return claimSuspects(lane, request, ['mail'])
  }
  const again = await suspects()
  assert.deepEqual(idsOf(again), ids.slice(0, 1), 'the first one runs again')
  await notRecorded()
  await completeAll(lane, worker, again)
  await notRecorded() // The second one ran before the first one ran again, so it has to run after it.

  await db.clock.advance('2s')
  await sweep(lane)
  assert.deepEqual(idsOf((await complete(lane, worker, run.slice(1, 2))).refused), [ids[1]])
  assert.deepEqual(idsOf(await suspects()), ids.slice(1, 2), 'and then the second')
})

async function claimedIds({ pool }: Pick<TestDatabase, 'pool'>): Promise<string[]> {
  const { rows } = await pool.query<{ id: string }>('select id from leasehold.job where claim_id is not null')
  return rows.map(({ id }) => id)
}
