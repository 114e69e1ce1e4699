// Completions that leave no trace, beside those that do.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Lane } from '../../src/db/lane.ts'
import { newClaimId } from '../../src/jobs/claim.ts'
import { COMPLETE_AND_FORGET_MANY } from '../../src/jobs/outcome.sql.ts'
import { complete, MANY } from '../../src/jobs/outcome.ts'
import { countGenerations, suiteDatabase } from '../support/database.ts'
import { claimedBy, claimNext, enqueueMany, newWorker } from '../support/queue.ts'

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

test('kept and not kept, stale and locked, in one batch: each has the outcome it would have alone', async () => {
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

/** Two claims that make a batch large enough to be completed as a whole. */
async function manyClaimed(queue: string) {
  await enqueueMany(lane, MANY + 20, { queue })
  const claims = [MANY, 20].map((limit) => claimNext(lane, { queues: [queue], kinds: ['mail'], worker, limit }))
  return (await Promise.all(claims)).flat().map((job) => ({ ...job, keepMs: false as const }))
}

const left = async (queue: string) =>
  (await db.pool.query('select id, status::text from leasehold.jobs where queue = $1', [queue])).rows

test('a large batch is completed at once, each claim by its own fence', async () => {
  const jobs = await manyClaimed('many')
  assert.deepEqual(await complete(lane, worker, jobs), { refused: [], busy: [] })
  assert.deepEqual(await left('many'), [])
})

test('a large batch with a stale lease, a locked row and keys has the outcomes that each would have alone', async () => {
  const keyed = { ...(await claimed('many mixed', { idempotencyKey: 'k' })), keepMs: false as const }
  const [locked, taken, ...others] = await manyClaimed('many mixed')
  const stale = { ...taken!, claimId: newClaimId() }
  const client = await db.connect()
  await client.query('begin')
  await client.query('select from leasehold.job where id = $1 for update', [locked!.jobId])
  const answer = await complete(lane, worker, [locked!, stale, keyed, ...others])
  const ids = (leases: readonly { jobId: string }[]) => leases.map(({ jobId }) => jobId)
  assert.deepEqual(ids(answer.refused), [stale.jobId])
  assert.deepEqual(ids(answer.busy), [locked!.jobId], 'nobody waits for it')
  await client.query('rollback')
  const rest = new Map((await left('many mixed')).map(({ id, status }) => [id, status]))
  assert.deepEqual(
    rest,
    new Map([
      [keyed.jobId, 'completed'],
      [locked!.jobId, 'processing'],
      [taken!.jobId, 'processing'],
    ]),
  )
})

test('completing many jobs at once completes all or none', async () => {
  const jobs = await manyClaimed('many or none')
  const send = (claimIds: string[]) =>
    lane.run<'done'>(COMPLETE_AND_FORGET_MANY, [jobs.map(({ jobId }) => jobId), claimIds, worker.id])
  const claimIds = jobs.map(({ claimId }) => claimId)
  // The fence is the claim, and not merely one of the claims of the batch.
  const swapped = [...claimIds.slice(0, -1), claimIds[0]!]
  assert.notEqual(claimIds.at(-1), claimIds[0])
  assert.equal((await send(swapped))[0]!.done, 'f')
  assert.equal((await left('many or none')).length, jobs.length)
  assert.equal((await send(claimIds))[0]!.done, 't')
  assert.deepEqual(await left('many or none'), [])
})
