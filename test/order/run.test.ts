// Runs: the jobs of a key that one claim takes, and what ends a run.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { claimSuspects, newClaimId, releaseClaim } from '../../src/jobs/claim.ts'
import { complete, completeWithin, MANY } from '../../src/jobs/completion.ts'
import { enqueue } from '../../src/jobs/enqueue.ts'
import { sweep } from '../../src/jobs/housekeeping.ts'
import { leaseOf } from '../../src/jobs/job.ts'
import { cancel } from '../../src/jobs/operator.ts'
import { settle } from '../../src/jobs/outcome.ts'
import { broken, claimRun, claimRuns, enqueueInKey, idsOf, nothingLeft, orderedQueue } from '../support/order.ts'
import { completeAll, jobRow, LEASE_MS, newWorker, session } from '../support/queue.ts'

const worker = newWorker()

test('a claim takes the head of each key, and at most so many of each', async (t) => {
  const { db, lane } = await orderedQueue(t)
  const [a, b] = [await enqueueInKey(lane, 5), await enqueueInKey(lane, 2, { partitionKey: 'other' })]
  const runs = await claimRuns(lane, { runLength: 3 })
  assert.deepEqual(
    runs.map((head) => [head.jobId, ...idsOf(head.run ?? [])]),
    [a.slice(0, 3), b],
  )
  assert.deepEqual(await claimRuns(lane), [], 'no other claim gets the rest')
  assert.deepEqual(await broken(db), [])
})

test('jobs of two queues with the same key are two runs', async (t) => {
  const { db, lane } = await orderedQueue(t)
  await db.pool.query("insert into leasehold.queue (name, ordered) values ('post', true)")
  const [mail, post] = [await enqueueInKey(lane, 2), await enqueueInKey(lane, 2, { kind: 'post' })]
  const both = ['mail', 'post']
  const runs = await claimRuns(lane, { queues: both, kinds: both })
  assert.deepEqual(
    runs.map((head) => [head.queue, head.kind, head.jobId, ...idsOf(head.run ?? [])]),
    [
      ['mail', 'mail', ...mail],
      ['post', 'post', ...post],
    ],
  )
})

test('a run ends before a job of another kind, a delayed one, a suspect and one that expired', async (t) => {
  const { db, lane } = await orderedQueue(t)
  const ends = {
    kind: { kind: 'other', queue: 'mail' },
    delay: { delayMs: 60_000 },
    expiry: { expiresAt: new Date(Date.now() - 1_000) },
    crash: {},
  }
  for (const [key, job] of Object.entries(ends)) {
    const ids = await enqueueInKey(lane, 2, { partitionKey: key })
    const [end] = await enqueueInKey(lane, 1, { ...job, partitionKey: key })
    await enqueueInKey(lane, 1, { partitionKey: key })
    if (key === 'crash') await db.pool.query('update leasehold.job set crashes = 1 where id = $1', [end])
    const run = await claimRun(lane, { worker })
    assert.deepEqual(idsOf(run), ids, key)
    await completeAll(lane, worker, run)
    assert.deepEqual(await claimRuns(lane), [], `${key}: nothing overtakes it`)
    assert.deepEqual(await broken(db), [])
  }
})

test('a run ends before a job that another transaction has locked', async (t) => {
  const { db, lane } = await orderedQueue(t)
  const ids = await enqueueInKey(lane, 4)
  const other = await session(db)
  await other.client.query('begin')
  await other.client.query('select from leasehold.job where id = $1 for update', [ids[2]])
  const run = await claimRun(lane, { worker })
  assert.deepEqual(idsOf(run), ids.slice(0, 2))
  await completeAll(lane, worker, run)
  assert.deepEqual(await claimRuns(lane), [], 'the next is locked')
  await other.client.query('rollback')
  assert.deepEqual(idsOf(await claimRun(lane)), ids.slice(2))
})

test('priority ranks keys by their heads, and is ignored inside a key', async (t) => {
  const { lane } = await orderedQueue(t)
  const [low] = await enqueueInKey(lane, 1, { partitionKey: 'a', priority: 9 })
  const [urgent] = await enqueueInKey(lane, 1, { partitionKey: 'a', priority: 0 })
  const [middle] = await enqueueInKey(lane, 1, { partitionKey: 'b', priority: 5 })
  const one = { worker, limit: 1, runLength: 1 }
  const [first] = await claimRuns(lane, one)
  assert.equal(first?.jobId, middle)
  const [second] = await claimRuns(lane, one)
  assert.equal(second?.jobId, low)
  await completeAll(lane, worker, [second!])
  const [later] = await enqueueInKey(lane, 1, { partitionKey: 'c', priority: 5 })
  assert.deepEqual(idsOf(await claimRuns(lane, { ...one, limit: 2 })), [urgent, later])
})

test('a worker that does not know of runs gets no job of an ordered queue', async (t) => {
  const { db, lane } = await orderedQueue(t)
  await enqueueInKey(lane, 2)
  const [plain] = await enqueue(lane, [{ kind: 'mail', queue: 'plain', input: 1 }])
  const claims = async (limit: number, crashes = 0) => {
    const { rows } = await db.pool.query(
      `select id from leasehold.claim($1, $2, 30000, $3, array['mail'], array['mail', 'plain'], array[5, 5]::smallint[],
        crashes_from => $4, crashes_to => $4) where id is not null`,
      [newClaimId(), worker.id, limit, crashes],
    )
    return rows.map(({ id }) => id)
  }
  assert.deepEqual(await claims(1), [plain!.jobId], 'a claim with room for one')
  assert.deepEqual(await claims(10), [], 'a claim with more room')
  await db.pool.query('update leasehold.job set crashes = 1 where claim_id is null')
  assert.deepEqual(await claims(1, 1), [], 'a claim of suspects')
})

test('a crashed run: its first job is a suspect, and the others spent nothing', async (t) => {
  const { db, lane } = await orderedQueue(t)
  const ids = await enqueueInKey(lane, 3)
  const [head] = await claimRun(lane, { worker })
  await completeAll(lane, worker, [head!])
  await db.clock.advance('31 s')
  assert.equal((await sweep(lane)).jobs.length, 2)
  assert.deepEqual(await broken(db), [])
  const [second, third] = [await jobRow(db, ids[1]!), await jobRow(db, ids[2]!)]
  assert.deepEqual([second.crashes, second.label], [1, 'ready'])
  assert.deepEqual([third.crashes, third.attempts, third.label], [0, 0, 'blocked'])
  const { rows } = await db.pool.query('select job_id, outcome from leasehold.attempts order by 1, 2')
  assert.deepEqual(
    rows.filter(({ outcome }) => outcome === 'crashed'),
    [{ job_id: ids[1], outcome: 'crashed' }],
  )
  assert.deepEqual(await claimRuns(lane), [], 'a suspect is claimed apart, and nothing overtakes it')
  const request = { claimId: newClaimId(), worker, kinds: ['mail'], limit: 5, leaseMs: LEASE_MS }
  const suspects = await claimSuspects(lane, request, ['mail'])
  assert.deepEqual(idsOf(suspects), [ids[1]])
  assert.equal(suspects[0]?.run, undefined, 'alone')
  await completeAll(lane, worker, suspects)
  assert.deepEqual(idsOf(await claimRun(lane)), [ids[2]])
})

test('a head that kills its worker each time becomes a dead letter, and blocks its key', async (t) => {
  const { db, lane } = await orderedQueue(t)
  const ids = await enqueueInKey(lane, 3, { maxAttempts: 2 })
  for (let crashes = 0; crashes < 10; crashes++) {
    const fresh = newWorker()
    const request = { claimId: newClaimId(), worker: fresh, kinds: ['mail'], limit: 5, leaseMs: LEASE_MS }
    const run = await claimRun(lane, { worker: fresh })
    if (run.length === 0) run.push(...(await claimSuspects(lane, request, ['mail'])))
    if (run.length === 0) break
    assert.equal(run[0]!.jobId, ids[0])
    await db.clock.advance('31 s')
    await sweep(lane)
    assert.deepEqual(await broken(db), [])
  }
  assert.equal((await jobRow(db, ids[0]!)).status, 'dead_letter')
  for (const id of ids.slice(1)) {
    const { status, label, attempts, crashes } = await jobRow(db, id)
    assert.deepEqual(
      { status, label, attempts, crashes },
      { status: 'pending', label: 'blocked', attempts: 0, crashes: 0 },
    )
  }
})

test('a claim whose reply was lost is released whole, and claimed again in order', async (t) => {
  const { db, lane } = await orderedQueue(t)
  const ids = await enqueueInKey(lane, 4)
  const [head] = await claimRun(lane, { worker })
  assert.equal((await cancel(lane, [ids[1]!]))[0]?.outcome, 'requested')
  assert.equal((await releaseClaim(lane, worker, head!.claimId)).length, 4)
  assert.deepEqual(await broken(db), [])
  const again = await claimRun(lane, { worker })
  assert.deepEqual(idsOf(again), [ids[0], ids[2], ids[3]])
  assert.ok(again.every(({ attempt }) => attempt === 1))
})

test('a claim whose reply was lost is released whole although its head is cancelled with it', async (t) => {
  const { db, lane } = await orderedQueue(t)
  const ids = await enqueueInKey(lane, 3)
  const [head] = await claimRun(lane, { worker })
  await cancel(lane, [ids[0]!])
  await releaseClaim(lane, worker, head!.claimId)
  assert.deepEqual(await broken(db), [])
  assert.deepEqual(idsOf(await claimRun(lane)), ids.slice(1))
})

test('a completion held open in a transaction delays no statement, and lets the next job in when it commits', async (t) => {
  for (const ending of ['commit', 'rollback']) {
    const { db, lane } = await orderedQueue(t)
    const ids = await enqueueInKey(lane, 2)
    const [head] = await claimRun(lane, { worker, runLength: 1 })
    const holder = await session(db)
    await holder.client.query('begin')
    await completeWithin(holder.lane.within(holder.client), worker, head!)
    assert.deepEqual(await claimRuns(lane), [])
    assert.deepEqual((await complete(lane, worker, [head!])).busy, [leaseOf(head!)])
    assert.equal((await cancel(lane, [ids[1]!]))[0]?.outcome, 'busy')
    await db.clock.advance('31 s')
    assert.deepEqual((await sweep(lane)).jobs, [])
    const [later] = await enqueueInKey(lane, 1)
    await holder.client.query(ending)
    assert.deepEqual(await broken(db), [])
    if (ending === 'commit') assert.deepEqual(idsOf(await claimRun(lane)), [ids[1], later])
    else {
      assert.deepEqual(await claimRuns(lane), [])
      await completeAll(lane, worker, [head!])
      assert.deepEqual(idsOf(await claimRun(lane)), [ids[1], later])
    }
  }
})

test('a sweep during a completion held open in a run leaves the rest blocked, and not stuck', async (t) => {
  const { db, lane } = await orderedQueue(t)
  const ids = await enqueueInKey(lane, 4)
  const [head] = await claimRun(lane, { worker })
  const holder = await session(db)
  await holder.client.query('begin')
  await completeWithin(holder.lane.within(holder.client), worker, head!)
  await db.clock.advance('31 s')
  await sweep(lane)
  assert.deepEqual(await broken(db), [])
  await holder.client.query('commit')
  await db.clock.advance('2 s')
  await sweep(lane)
  assert.deepEqual(await broken(db), [])
  const order: string[] = []
  for (;;) {
    const request = { claimId: newClaimId(), worker, kinds: ['mail'], limit: 5, leaseMs: LEASE_MS }
    const run = await claimRun(lane, { worker })
    if (run.length === 0) run.push(...(await claimSuspects(lane, request, ['mail'])))
    if (run.length === 0) break
    order.push(...idsOf(run))
    await completeAll(lane, worker, run)
  }
  assert.deepEqual(order, ids.slice(1))
  await nothingLeft(db)
})

test('one batch that fails the head and releases a job behind it returns each once', async (t) => {
  const { db, lane } = await orderedQueue(t)
  const ids = await enqueueInKey(lane, 4)
  for (const reversed of [false, true]) {
    const run = await claimRun(lane, { worker })
    const items = [
      { ...run[0]!, verb: 'fail' as const, error: 'x', delayMs: 0 },
      { ...run[1]!, verb: 'release' as const },
    ]
    const settled = await settle(lane, worker, reversed ? items.reverse() : items)
    assert.deepEqual(
      settled.map(({ outcome }) => outcome),
      ['pending', 'pending'],
    )
    assert.deepEqual(await broken(db), [])
  }
  const again = await claimRun(lane, { worker })
  assert.deepEqual(
    again.map(({ jobId, attempt }) => [jobId, attempt]),
    ids.map((id, n) => [id, n === 0 ? 3 : 1]),
  )
})

test('a run of a thousand jobs is completed in one batch', async (t) => {
  const { db, lane } = await orderedQueue(t)
  await enqueueInKey(lane, 1_200)
  const run = await claimRun(lane, { worker, runLength: 1_000 })
  assert.equal(run.length, 1_000)
  assert.deepEqual(await complete(lane, worker, run).then(({ refused, busy }) => [refused, busy]), [[], []])
  const rest = await claimRun(lane, { worker, runLength: 1_000 })
  assert.equal(rest.length, 200)
  await completeAll(lane, worker, rest)
  await nothingLeft(db)
})

for (const count of [1, MANY]) {
  test(`a completion of ${count} that knows no more than the leases lets the next jobs in`, async (t) => {
    const { db, lane } = await orderedQueue(t)
    const keys = Array.from({ length: count }, (_, n) => `key:${n}`)
    for (const partitionKey of keys) await enqueueInKey(lane, 2, { partitionKey })
    const heads = await claimRuns(lane, { worker, runLength: 1, limit: count })
    assert.deepEqual(await complete(lane, worker, heads.map(leaseOf)), { refused: [], busy: [], letIn: true })
    assert.deepEqual(await broken(db), [])
    assert.equal((await claimRuns(lane, { limit: count })).length, count)
  })
}
