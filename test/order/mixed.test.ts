// Batches of every kind, from six sessions, over a few keys of three ordered queues, in random order. An observer asks all the
// time for what must always be true of committed rows; in the end everything is worked off, in order.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Lane } from '../../src/db/lane.ts'
import { claimSuspects, newClaimId, releaseClaim } from '../../src/jobs/claim.ts'
import { complete, completeWithin, turn } from '../../src/jobs/completion.ts'
import { enqueue, type NewJob } from '../../src/jobs/enqueue.ts'
import { expire, sweep } from '../../src/jobs/housekeeping.ts'
import type { ClaimedJob, ClaimId, JobId } from '../../src/jobs/job.ts'
import { cancel, findDeadLetters, redrive } from '../../src/jobs/operator.ts'
import { unblock } from '../../src/jobs/order.ts'
import { settle } from '../../src/jobs/outcome.ts'
import { everyStart } from '../../src/jobs/scan-walk.ts'
import { freshDatabase } from '../support/database.ts'
import { broken, claimRuns } from '../support/order.ts'
import { completeAll, newWorker, session } from '../support/queue.ts'

const BATCHES = Number(process.env.BATCHES ?? 3_000)
const SESSIONS = 6
const QUEUES = ['block', 'skip', 'park']

/** A small, seeded generator: a failing run can be repeated. */
function seeded(seed: number): () => number {
  let state = seed
  return () => {
    state = (Math.imul(state ^ (state >>> 15), state | 1) + 0x6d2b79f5) | 0
    return ((state ^ (state >>> 14)) >>> 0) / 4_294_967_296
  }
}

const isConflict = ({ code }: { code?: string }) => code === '40001' || code === 'TRANSACTION_CONFLICT'

test('no key is stuck, overtaken or held twice after 3,000 mixed batches, and nothing deadlocks', async (t) => {
  const db = await freshDatabase(t)
  for (const name of QUEUES)
    await db.pool.query('insert into leasehold.queue (name, ordered, on_dead_letter) values ($1, true, $1)', [name])
  const seed = Number(process.env.SEED ?? Date.now() % 1_000_000)
  t.diagnostic(`seed ${seed}`)
  const known = new Set<JobId>()
  let batches = 0

  const runSession = async (number: number) => {
    const random = seeded(seed + number)
    const below = (n: number) => Math.floor(random() * n)
    const pick = <Item>(items: readonly Item[]): Item => items[below(items.length)]!
    const { lane, client } = await session(db)
    const worker = newWorker(`session ${number}`)
    /** What is left of each run, in order. */
    let runs: ClaimedJob[][] = []
    const claims: ClaimId[] = []
    const hold = (jobs: readonly ClaimedJob[]) => {
      for (const job of jobs) runs.push([job, ...(job.run ?? [])])
      if (jobs[0] !== undefined) claims.push(jobs[0].claimId)
    }
    const takeRun = () => runs.splice(below(runs.length), 1)[0] ?? []
    const newJobs = (): NewJob[] =>
      Array.from({ length: 1 + below(12) }, () => ({
        kind: pick(['mail', 'mail', 'mail', 'post']),
        queue: pick(QUEUES),
        input: 1,
        priority: below(10),
        maxAttempts: 2,
        partitionKey: `k${below(4)}`,
        ...(random() < 0.2 ? { idempotencyKey: `i${below(200)}` } : {}),
        ...(random() < 0.1 ? { expiresAt: new Date(Date.now() + 5) } : {}),
        ...(random() < 0.1 ? { delayMs: below(10) } : {}),
      }))
    const store = async (to = lane) => {
      for (const answer of await enqueue(to, newJobs())) known.add(answer.jobId)
    }
    const within = async (level: string, work: () => Promise<unknown>) => {
      await client.query(`begin isolation level ${level}`)
      const before = new Set(known)
      const isDone = await work().then(
        () => true,
        (error) => {
          if (!isConflict(error) && error.code !== 'LEASE_LOST') throw error
          return false
        },
      )
      const commits = isDone && random() < 0.7
      const done = await client.query(commits ? 'commit' : 'rollback').catch(() => undefined)
      if (done?.command !== 'COMMIT') for (const id of known) if (!before.has(id) && !runsKnow(id)) unsure.add(id)
      return done?.command === 'COMMIT'
    }
    const runsKnow = (id: JobId) => runs.flat().some(({ jobId }) => jobId === id)
    const end = async (verb: 'fail' | 'release' | 'snooze' | 'bury' | 'cancel') => {
      const run = takeRun()
      const job = run[0]
      if (job === undefined) return
      const item = { ...job, verb, error: 'x', delayMs: below(5), reason: 'fatal' as const }
      const [settled] = await settle(lane, worker, [item as Parameters<typeof settle>[2][number]])
      if (settled!.outcome === 'busy') runs.push(run)
    }
    const request = (runLength: number) => ({
      claimId: newClaimId(),
      worker,
      kinds: pick([['mail'], ['mail', 'post'], ['mail', 'post']]),
      limit: 1 + below(5),
      leaseMs: 1 + below(40),
      runLength,
    })
    const actions: (() => Promise<unknown>)[] = [
      () => store(),
      () => store(),
      () => within(pick(['read committed', 'repeatable read', 'serializable']), () => store(lane.within(client))),
      async () => hold(await claimRuns(lane, { ...request(1 + below(8)), queues: QUEUES })),
      async () => hold(await claimRuns(lane, { ...request(1 + below(8)), queues: QUEUES })),
      async () => hold(await claimSuspects(lane, request(1), QUEUES)),
      async () => {
        const run = takeRun()
        const part = run.splice(0, 1 + below(4))
        const { busy } = await complete(lane, worker, part)
        if (busy.length > 0) runs.push(part.filter(({ jobId }) => busy.some((lease) => lease.jobId === jobId)))
        else if (run.length > 0) runs.push(run)
      },
      async () => {
        const run = takeRun()
        const part = run.splice(0, 1 + below(4))
        const { claimed, notWritten } = await turn(lane, part, request(1 + below(8)), everyStart(QUEUES))
        hold(claimed.jobs)
        const { busy } = await notWritten
        if (busy.length > 0) runs.push(part.filter(({ jobId }) => busy.some((lease) => lease.jobId === jobId)))
        else if (run.length > 0) runs.push(run)
      },
      async () => {
        const run = takeRun()
        const job = run[0]
        if (job === undefined) return
        const level = pick(['read committed', 'repeatable read', 'serializable'])
        if (await within(level, () => completeWithin(lane.within(client), worker, job))) run.shift()
        if (run.length > 0) runs.push(run)
      },
      () => end('fail'),
      () => end(pick(['release', 'snooze', 'bury', 'cancel'])),
      () => sweep(lane, 5),
      () => cancel(lane, [pick([...known, '1' as JobId]), pick([...known, '1' as JobId])]),
      async () => redrive(lane, await findDeadLetters(lane, { queue: pick(QUEUES), limit: 5 })),
      () => unblock(lane, { queue: pick(QUEUES), partitionKey: `k${below(4)}` }),
      () => expire(lane, 10),
      async () => {
        // Sweeps and releases pass over these meanwhile.
        await client.query('begin')
        const rows = 'select from leasehold.job where claim_id is not null and id % 2 = $1 for update skip locked'
        await client.query(rows, [below(2)])
        assert.deepEqual(await broken(db), [])
        await client.query('commit')
      },
      async () => {
        const claimId = claims.pop()
        if (claimId === undefined) return
        runs = runs.filter(([job]) => job?.claimId !== claimId)
        await releaseClaim(lane, worker, claimId)
      },
    ]
    while (batches < BATCHES) {
      batches++
      await pick(actions)()
    }
  }
  const unsure = new Set<JobId>()
  const observe = async () => {
    for (let looks = 0; batches < BATCHES; looks++) assert.deepEqual(await broken(db), [], `look ${looks}`)
  }
  await Promise.all([observe(), ...Array.from({ length: SESSIONS }, (_, number) => runSession(number))])

  await drain(db, new Lane(db.pool))
  const { rows } = await db.pool.query('select deadlocks::int from pg_stat_database where datname = current_database()')
  assert.equal(rows[0].deadlocks, 0)
  const { rows: shown } = await db.pool.query<{ id: JobId }>('select id from leasehold.jobs')
  const ids = new Set(shown.map(({ id }) => id))
  assert.equal(ids.size, shown.length, 'every job is shown once')
  assert.deepEqual(
    [...known].filter((id) => !ids.has(id) && !unsure.has(id)),
    [],
    'none is lost',
  )
})

async function drain(db: Parameters<typeof broken>[0], lane: Lane): Promise<void> {
  const worker = newWorker('drain')
  const request = () => ({ claimId: newClaimId(), worker, kinds: ['mail', 'post'], limit: 100, leaseMs: 10_000 })
  for (let rounds = 0; rounds < 1_000; rounds++) {
    for (const queue of QUEUES) await redrive(lane, await findDeadLetters(lane, { queue, limit: 1_000 }))
    const jobs = await claimRuns(lane, { ...request(), runLength: 50, queues: QUEUES })
    if (jobs.length === 0) jobs.push(...(await claimSuspects(lane, request(), QUEUES)))
    const all = jobs.flatMap((job) => [job, ...(job.run ?? [])])
    assert.deepEqual(await completeAll(lane, worker, all), { refused: [], busy: [] })
    await expire(lane, 1_000)
    while ((await sweep(lane)).claims > 0) {}
    const { rows } = await db.pool.query(`select (select count(*) from leasehold.job)
      + (select count(*) from leasehold.dead_letter) + (select count(*) from leasehold.order_key)
      + (select count(*) from leasehold.order_check) as left`)
    if (rows[0].left === '0') return
  }
  assert.deepEqual(await broken(db), [])
  const { rows } = await db.pool.query(
    'select b.*, to_jsonb(j) as job, to_jsonb(d) as letter, (select count(*) from leasehold.claim c where c.id = j.claim_id) as claims from leasehold.blocked_keys b left join leasehold.job j on j.id = b.job_id left join leasehold.dead_letter d on d.id = b.job_id limit 3',
  )
  throw new Error(`the queues do not drain: ${JSON.stringify(rows, null, 1)}`)
}
