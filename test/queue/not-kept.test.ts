// Completions that leave no trace, beside those that do.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Lane } from '../../src/db/lane.ts'
import { newClaimId } from '../../src/queue/claim.ts'
import { complete } from '../../src/queue/outcome.ts'
import { countGenerations, suiteDatabase } from '../support/database.ts'
import { claimedBy, newWorker } from '../support/queue.ts'

const db = await suiteDatabase()
await countGenerations(db)
const lane = new Lane(db.pool)
const worker = newWorker('host:1')

const claimed = (queue: string, job = {}) => claimedBy(lane, worker, queue, job)

test('a job that is not kept leaves nothing, unless its key must be remembered', async () => {
  const plain = await claimed('not-kept')
  const keyed = await claimed('not-kept', { idempotencyKey: 'k' })
  await complete(lane, worker, [
    { ...plain, keepMs: false },
    { ...keyed, keepMs: false },
  ])
  const { rows } = await db.pool.query("select id from leasehold.jobs where queue = 'not-kept'")
  assert.deepEqual(
    rows.map((row) => row.id),
    [keyed.jobId],
  )
})

test('kept and not kept, stale and locked, in one batch: each is answered as if it were alone', async () => {
  const [kept, gone, busy, busyAndGone] = await Promise.all(
    ['kept', 'gone', 'busy', 'busy and gone'].map((name) => claimed(`mixed ${name}`)),
  )
  const stale = { ...(await claimed('mixed stale')), claimId: newClaimId(), keepMs: false as const }
  const client = await db.connect()
  await client.query('begin')
  await client.query('select from leasehold.job where id = any ($1) for update', [[busy!.jobId, busyAndGone!.jobId]])
  const answer = await complete(lane, worker, [
    { ...gone!, keepMs: false },
    kept!,
    busy!,
    stale,
    { ...busyAndGone!, keepMs: false },
    { ...gone!, keepMs: false },
  ])
  await client.query('rollback')
  const ids = (leases: readonly { jobId: string }[]) => leases.map(({ jobId }) => jobId).sort()
  assert.deepEqual(ids(answer.refused), ids([stale, gone!]), 'stale, and the second of two')
  assert.deepEqual(ids(answer.busy), ids([busy!, busyAndGone!]))
  const { rows } = await db.pool.query(`select queue, status from leasehold.jobs where queue like 'mixed %'`)
  assert.deepEqual(rows.map(({ queue, status }) => `${queue}: ${status}`).sort(), [
    'mixed busy and gone: processing',
    'mixed busy: processing',
    'mixed kept: completed',
    'mixed stale: processing',
  ])
})
