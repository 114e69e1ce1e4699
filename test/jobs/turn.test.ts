// A turn: completions and a claim in one statement. Each half does what it would do alone, and both happen or neither.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Lane } from '../../src/db/lane.ts'
import { newClaimId } from '../../src/jobs/claim.ts'
import { type Completion, turn } from '../../src/jobs/completion.ts'
import { pause, resume } from '../../src/jobs/pause.ts'
import { ScanCursors } from '../../src/jobs/scan-cursors.ts'
import { suiteDatabase } from '../support/database.ts'
import { claimedBy, claimNext, enqueueMany, LEASE_MS, newWorker } from '../support/queue.ts'

const db = await suiteDatabase()
const lane = new Lane(db.pool)
const worker = newWorker('host:1')

const take = (items: readonly Completion[], queue: string, limit = 10) => {
  const request = { claimId: newClaimId(), worker, kinds: ['mail'], limit, leaseMs: LEASE_MS }
  return turn(lane, items, request, new ScanCursors([queue]).next().walk)
}

const statusOf = async (ids: readonly string[]) => {
  const { rows } = await db.pool.query('select id, status::text from leasehold.jobs where id = any ($1)', [ids])
  const byId = new Map(rows.map(({ id, status }) => [id, status]))
  return ids.map((id) => byId.get(id))
}

test('kept, not kept, keyed, stale and locked: each has the outcome it would have alone, and jobs are claimed', async () => {
  const names = ['kept', 'gone', 'keyed', 'stale', 'locked'] as const
  const options = (name: string) => (name === 'keyed' ? { idempotencyKey: 'k' } : {})
  const jobs = await Promise.all(names.map((name) => claimedBy(lane, worker, `turn ${name}`, options(name))))
  const [kept, gone, keyed, stale, locked] = jobs as unknown as readonly [
    Completion,
    Completion,
    Completion,
    Completion,
    Completion,
  ]
  const waiting = await enqueueMany(lane, 3, { queue: 'turn' })
  const client = await db.connect()
  await client.query('begin')
  await client.query('select from leasehold.job where id = $1 for update', [locked.jobId])

  const items = [kept, { ...gone, keepMs: false as const }, { ...keyed, keepMs: false as const }]
  const { notWritten, claimed } = await take([...items, { ...stale, claimId: newClaimId() }, locked], 'turn')
  const { refused, busy } = await notWritten
  await client.query('rollback')
  assert.deepEqual([refused.map(({ jobId }) => jobId), busy.map(({ jobId }) => jobId)], [[stale.jobId], [locked.jobId]])
  assert.deepEqual(
    claimed.jobs.map(({ jobId }) => jobId),
    waiting,
  )
  assert.deepEqual(await statusOf([kept, gone, keyed, stale, locked].map(({ jobId }) => jobId)), [
    'completed',
    undefined,
    'completed',
    'processing',
    'processing',
  ])
  assert.deepEqual(await statusOf(waiting), ['processing', 'processing', 'processing'])
})

test('a turn does not claim the job it completes, even if it is next in the queue', async () => {
  await enqueueMany(lane, 2, { queue: 'turn next' })
  const [first] = await claimNext(lane, { queues: ['turn next'], kinds: ['mail'], worker })
  const { claimed } = await take([{ ...first!, keepMs: false }], 'turn next')
  assert.equal(claimed.jobs.length, 1)
  assert.notEqual(claimed.jobs[0]!.jobId, first!.jobId)
})

test('a turn claims what was committed while it completed', async () => {
  const job = await claimedBy(lane, worker, 'turn late')
  // A job that comes while the other is completed.
  await db.pool.query(`create function come() returns trigger language plpgsql as $$
    begin
      insert into leasehold.job (available_at, created_at, partition_bucket, queue, kind, payload)
      values (leasehold.clock(), leasehold.clock(), 0, old.queue, 'mail', '"late"');
      return old;
    end $$`)
  await db.pool.query(`create trigger come before delete on leasehold.job for each row when (old.queue = 'turn late')
    execute function come()`)
  const { claimed } = await take([job], 'turn late')
  await db.pool.query('drop trigger come on leasehold.job')
  assert.deepEqual(
    claimed.jobs.map(({ payload }) => payload),
    ['"late"'],
  )
})

test('two outcomes of one job, under its claim and under another: the fence decides, whichever comes first', async () => {
  for (const order of ['stale first', 'stale last']) {
    const job = await claimedBy(lane, worker, `turn ${order}`)
    const stale = { ...job, claimId: newClaimId() }
    const items = order === 'stale first' ? [stale, job] : [job, stale]
    const { refused, busy } = await (await take(items, 'turn idle')).notWritten
    assert.deepEqual([refused.map(({ claimId }) => claimId), busy], [[stale.claimId], []], order)
    assert.deepEqual(await statusOf([job.jobId]), ['completed'])
  }
})

test('with nothing to claim, or everything paused, it completes all the same', async () => {
  const [one, other] = [await claimedBy(lane, worker, 'turn idle'), await claimedBy(lane, worker, 'turn paused')]
  const idle = await take([one], 'turn idle')
  assert.deepEqual([(await idle.notWritten).refused, idle.claimed.jobs, idle.claimed.at === undefined], [[], [], false])
  await pause(lane, { kind: 'mail' }, {})
  const paused = await take([other], 'turn paused')
  await resume(lane, { kind: 'mail' }, {})
  assert.deepEqual([(await paused.notWritten).refused, paused.claimed.jobs, paused.claimed.at], [[], [], undefined])
  assert.deepEqual(await statusOf([one.jobId, other.jobId]), ['completed', 'completed'])
})

test('a result that the server refuses leaves both halves undone', async () => {
  const held = await claimedBy(lane, worker, 'turn refused')
  const waiting = await enqueueMany(lane, 1, { queue: 'turn refused' })
  await assert.rejects(take([{ ...held, resultJson: '{' }], 'turn refused'), { code: '22P02' })
  assert.deepEqual(await statusOf([held.jobId, ...waiting]), ['processing', 'pending'])
})
