// Completions: kept or not, few or many at once.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Lane } from '../../src/db/lane.ts'
import { newClaimId } from '../../src/jobs/claim.ts'
import { complete, MANY } from '../../src/jobs/completion.ts'
import { COMPLETE_MANY } from '../../src/jobs/outcome.sql.ts'
import { countGenerations, suiteDatabase } from '../support/database.ts'
import { claimedBy, claimNext, enqueueMany, newWorker, session } from '../support/queue.ts'
import { until } from '../support/until.ts'

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
async function manyClaimed(queue: string, keepMs: number | false) {
  await enqueueMany(lane, MANY + 20, { queue })
  const claims = [MANY, 20].map((limit) => claimNext(lane, { queues: [queue], kinds: ['mail'], worker, limit }))
  return (await Promise.all(claims)).flat().map((job) => ({ ...job, keepMs }))
}

const left = async (queue: string) =>
  (await db.pool.query('select id, status::text from leasehold.jobs where queue = $1', [queue])).rows

const unfinished = async (queue: string) => (await left(queue)).filter(({ status }) => status === 'processing').length

for (const keepMs of [false, 60_000] as const) {
  const queue = `many, kept for ${keepMs}`

  test(`${queue}: a large batch is completed at once, each claim by its own fence`, async () => {
    const jobs = await manyClaimed(queue, keepMs)
    assert.deepEqual(await complete(lane, worker, jobs), { refused: [], busy: [] })
    assert.equal(await unfinished(queue), 0)
    assert.equal((await left(queue)).length, keepMs === false ? 0 : jobs.length)
  })

  test(`${queue}: a stale lease, a locked row and a key have the outcomes that each would have alone`, async () => {
    const mixed = `${queue}, mixed`
    const keyed = { ...(await claimed(mixed, { idempotencyKey: 'k' })), keepMs }
    const [locked, taken, ...others] = await manyClaimed(mixed, keepMs)
    const stale = { ...taken!, claimId: newClaimId() }
    const client = await db.connect()
    await client.query('begin')
    await client.query('select from leasehold.job where id = $1 for update', [locked!.jobId])
    const answer = await complete(lane, worker, [locked!, stale, keyed, ...others])
    const ids = (leases: readonly { jobId: string }[]) => leases.map(({ jobId }) => jobId)
    assert.deepEqual(ids(answer.refused), [stale.jobId])
    assert.deepEqual(ids(answer.busy), [locked!.jobId], 'it waits for none')
    await client.query('rollback')
    const statuses = new Map((await left(mixed)).map(({ id, status }) => [id, status]))
    const expected = new Map([
      ...(keepMs === false ? [] : others.map(({ jobId }) => [jobId, 'completed'] as const)),
      [keyed.jobId, 'completed'],
      [locked!.jobId, 'processing'],
      [taken!.jobId, 'processing'],
    ])
    assert.deepEqual([...statuses].sort(), [...expected].sort())
  })

  test(`${queue}: all or none, and of a repeated job the second is refused`, async () => {
    const all = `${queue}, all or none`
    const jobs = await manyClaimed(all, keepMs)
    const claimIds = [...new Set(jobs.map(({ claimId }) => claimId))]
    const send = (sizes: number[]) =>
      lane.run<'done'>(COMPLETE_MANY, [
        jobs.map(({ jobId }) => jobId),
        claimIds,
        sizes,
        worker.id,
        keepMs || null,
        null,
        null,
        null,
      ])
    // The fence is the claim, and not merely one of the claims of the batch.
    assert.equal((await send([MANY + 1, 19]))[0]!.done, 'f')
    assert.equal(await unfinished(all), jobs.length)
    const { refused, busy } = await complete(lane, worker, [...jobs, jobs[3]!])
    assert.deepEqual([refused.map(({ jobId }) => jobId), busy], [[jobs[3]!.jobId], []])
    assert.equal(await unfinished(all), 0)
  })
}

test('a large batch that waits for another lock than that of a job is still completed at once', async () => {
  const queue = 'many, while the archive is locked'
  const jobs = await manyClaimed(queue, 60_000)
  const [keeper, completing] = await Promise.all([db.connect(), session(db)])
  await keeper.query('begin; lock table leasehold.archive in share mode')
  const answer = completing.lane.run<'done'>(COMPLETE_MANY, [
    jobs.map(({ jobId }) => jobId),
    [...new Set(jobs.map(({ claimId }) => claimId))],
    [MANY, 20],
    worker.id,
    60_000,
    null,
    null,
    null,
  ])
  await until('it has locked its rows', async () => {
    const { rowCount } = await keeper.query(
      `select from pg_locks where pid = $1 and relation = 'leasehold.job'::regclass and mode = 'RowShareLock'`,
      [completing.pid],
    )
    return rowCount === 1
  })
  await keeper.query('commit')
  assert.equal((await answer)[0]!.done, 't')
  assert.equal(await unfinished(queue), 0)
})

for (const results of ['few', 'most'] as const) {
  test(`a large batch, of which ${results} have a result, and different retention: each job has its own`, async () => {
    const queue = `many, ${results} with results`
    const jobs = await manyClaimed(queue, false)
    const items = jobs.map((job, n) => ({
      ...job,
      ...((results === 'few') === (n % 10 === 0) ? { result: { n } } : {}),
      keepMs: n < 60 ? 60_000 : 3_600_000,
    }))
    assert.deepEqual(await complete(lane, worker, items), { refused: [], busy: [] })
    const { rows } = await db.pool.query(
      `select id, result, extract(epoch from forget_at - finished_at) * 1000 as kept from leasehold.archive where queue = $1`,
      [queue],
    )
    const found = new Map(rows.map(({ id, result, kept }) => [id, [result, Number(kept)]]))
    assert.deepEqual(
      items.map(({ jobId }) => found.get(jobId)),
      items.map((item) => ['result' in item ? item.result : null, item.keepMs]),
    )
  })
}
