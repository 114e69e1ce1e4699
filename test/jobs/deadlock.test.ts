// 10,000 batches of every kind, from eight sessions, over the same few hundred rows, in random order. No statement waits
// for a job row, so none can deadlock; and each claim ends once.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Lane } from '../../src/db/lane.ts'
import { claim, claimSuspects, newClaimId, releaseClaim, renew } from '../../src/jobs/claim.ts'
import { complete, completeWithin } from '../../src/jobs/completion.ts'
import { enqueue } from '../../src/jobs/enqueue.ts'
import { expire, makePartitions, pruneKeys, sweep } from '../../src/jobs/housekeeping.ts'
import type { ClaimedJob, ClaimId, JobId, Lease } from '../../src/jobs/job.ts'
import { cancel, findDeadLetters, redrive } from '../../src/jobs/operator.ts'
import { progress, recorded, type Settlement, settle } from '../../src/jobs/outcome.ts'
import { ScanCursors } from '../../src/jobs/scan-cursors.ts'
import { everyStart } from '../../src/jobs/scan-walk.ts'
import { freshDatabase } from '../support/database.ts'
import { newWorker, session } from '../support/queue.ts'

const BATCHES = 10_000
const SESSIONS = 8

/** A small, seeded generator: a failing run can be repeated. */
function seeded(seed: number): () => number {
  let state = seed
  return () => {
    state = (Math.imul(state ^ (state >>> 15), state | 1) + 0x6d2b79f5) | 0
    return ((state ^ (state >>> 14)) >>> 0) / 4_294_967_296
  }
}

const LEFT = `-- test.left
select (select count(*) from leasehold.job) + (select count(*) from leasehold.claim) as rows`

/** Claims everything that can still be claimed. */
async function drain(lane: Lane): Promise<void> {
  const worker = newWorker('drain')
  for (let rounds = 0; rounds < 10_000; rounds++) {
    const request = { claimId: newClaimId(), worker, kinds: ['mail'], limit: 500, leaseMs: 1_000 }
    const jobs = await claim(lane, request, everyStart(['a', 'b']))
    if (jobs.length === 0) jobs.push(...(await claimSuspects(lane, request, ['a', 'b'])))
    await complete(lane, worker, jobs)
    await expire(lane, 1_000)
    while ((await sweep(lane)).claims > 0) {}
    const [left] = await lane.run<'rows'>(LEFT, [])
    if (left?.rows === '0') return
  }
  throw new Error('the queue does not drain')
}

test('no deadlock in 10,000 mixed batches, and no claim ends twice', async (t) => {
  const db = await freshDatabase(t)
  const seed = Date.now() % 1_000_000
  t.diagnostic(`seed ${seed}`)
  const ended = new Map<string, string>()
  const known: JobId[] = []
  let batches = 0

  const endOnce = (lease: Lease, how: string) => {
    const fence = `${lease.jobId}/${lease.claimId}`
    assert.equal(ended.get(fence), undefined, `${fence} ended as ${ended.get(fence)} and as ${how}`)
    ended.set(fence, how)
  }

  const runSession = async (number: number) => {
    const random = seeded(seed + number)
    const pick = <Item>(items: readonly Item[]): Item => items[Math.floor(random() * items.length)]!
    const some = <Item>(items: readonly Item[], count: number) => Array.from({ length: count }, () => pick(items))
    const { lane: own, client } = await session(db)
    const worker = newWorker(`session ${number}`)
    const cursors = new ScanCursors(['a', 'b'])
    const held: ClaimedJob[] = []
    const claims: ClaimId[] = []
    const take = () => held.splice(0, 1 + Math.floor(random() * 20)).sort(() => random() - 0.5)
    const settleAll = async (items: Settlement[]) => {
      for (const { outcome, ...lease } of await settle(own, worker, items)) {
        if (outcome === 'busy') held.push(items.find((item) => item.jobId === lease.jobId) as unknown as ClaimedJob)
        else if (outcome !== 'refused') endOnce(lease, outcome)
      }
    }
    const actions: (() => Promise<unknown>)[] = [
      async () => {
        const jobs = Array.from({ length: 10 }, () => ({
          kind: 'mail',
          queue: pick(['a', 'b']),
          input: 1,
          priority: Math.floor(random() * 10),
          maxAttempts: 2,
          ...(random() < 0.3 ? { idempotencyKey: `k${Math.floor(random() * 50)}` } : {}),
          ...(random() < 0.1 ? { expiresAt: new Date(Date.now() + 1) } : {}),
        }))
        known.push(...(await enqueue(own, jobs)).map((answer) => answer.jobId))
      },
      async () => {
        const claimId = newClaimId()
        const request = { claimId, worker, kinds: ['mail'], limit: 20, leaseMs: 1 + Math.floor(random() * 40) }
        const asked = cursors.next(20)
        const ordinary = () => claim(own, { ...request, share: asked.share }, asked.walk)
        const jobs = random() < 0.8 ? await ordinary() : await claimSuspects(own, request, ['b', 'a'])
        cursors.learn(asked, { jobs, limit: 20, walkMs: 0 })
        held.push(...jobs)
        claims.push(claimId)
      },
      async () => {
        const jobs = take()
        const { refused, busy } = await complete(own, worker, jobs)
        const not = new Set([...refused, ...busy].map((lease) => lease.jobId))
        for (const job of jobs) if (!not.has(job.jobId)) endOnce(job, 'completed')
        held.push(...jobs.filter((job) => busy.some((lease) => lease.jobId === job.jobId)))
      },
      () => settleAll(take().map((job) => ({ ...job, verb: 'fail', error: 'x', delayMs: random() * 5 }))),
      () =>
        settleAll(
          take().map((job) =>
            random() < 0.5 ? { ...job, verb: 'snooze', delayMs: 1 } : { ...job, verb: pick(['release', 'cancel']) },
          ),
        ),
      async () => {
        for (const job of (await sweep(own, 5)).jobs) endOnce(job, `swept ${job.outcome}`)
      },
      () => renew(own, worker, claims.splice(0, 3), 30),
      () => (known.length ? cancel(own, some(known, 3)) : sweep(own, 1)),
      async () => redrive(own, await findDeadLetters(own, { queue: pick(['a', 'b']), limit: 5 })),
      async () => held[0] && progress(own, held[0], number),
      () => recorded(own, held.slice(0, 5)),
      () => expire(own, 10),
      async () => {
        const [job] = held.splice(0, 1)
        if (job === undefined) return
        await client.query('begin')
        const done = await completeWithin(own, worker, job).then(
          () => true,
          () => false,
        )
        const commits = done && random() < 0.5
        await client.query(commits ? 'commit' : 'rollback')
        if (commits) endOnce(job, 'completed')
        else held.push(job)
      },
      async () => {
        const claimId = claims.pop()
        if (claimId === undefined) return
        // Its jobs end here; `held` still names them, and is refused.
        for (const lease of await releaseClaim(own, worker, claimId)) endOnce(lease, 'released')
      },
      () => pruneKeys(own, 20),
      () => makePartitions(own, 2),
    ]
    while (batches < BATCHES) {
      batches++
      await pick(actions)()
    }
  }
  await Promise.all(Array.from({ length: SESSIONS }, (_, number) => runSession(number)))

  await drain(new Lane(db.pool))
  const { rows } = await db.pool.query('select deadlocks::int from pg_stat_database where datname = current_database()')
  assert.equal(rows[0].deadlocks, 0)
  const shown = await db.pool.query('select count(*)::int as n, count(distinct id)::int as ids from leasehold.jobs')
  assert.equal(shown.rows[0].n, shown.rows[0].ids, 'every job is shown once')
  assert.equal(shown.rows[0].ids, new Set(known).size, 'none is lost and none appeared')
  const left = await db.pool.query("select status::text from leasehold.jobs where status in ('pending', 'processing')")
  assert.deepEqual(left.rows, [], 'nothing is stuck')
  assert.equal((await db.pool.query('select from leasehold.claim')).rowCount, 0, 'every claim is closed')
  assert.ok(ended.size > 1_000, `${ended.size} claims ended`)
  const kinds = new Set(ended.values())
  for (const how of ['completed', 'pending', 'dead_letter', 'cancelled', 'swept pending']) {
    assert.ok(kinds.has(how), `the run never met: ${how}`)
  }
})
