// A worker that is killed leaves nothing but its lease, and the job runs again when that is over (decisions/0018).
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { type JobId, Leasehold } from '../../src/index.ts'
import { type FaultyProxy, startFaultyProxy } from '../../tools/faulty-proxy.ts'
import { countingDatabase, type TestDatabase } from '../support/database.ts'
import { startWorker, type WorkerProcess } from '../support/processes.ts'
import { countByStatus, jobRow } from '../support/queue.ts'
import { until } from '../support/until.ts'
import { type Act, work } from './programs/jobs.ts'

const SECOND = 1_000
/** Nothing expires by itself in these tests: the clock is moved to expire a lease. */
const PATIENT = { lease: '30s', sweep: '200ms' } as const

async function enqueue(db: TestDatabase, act: Act): Promise<JobId> {
  return (await new Leasehold({ pool: db.pool }).enqueue(work, { act })).jobId
}

async function jobIs(db: TestDatabase, jobId: JobId, status: string) {
  return until(`job ${jobId} is ${status}`, async () => {
    const job = await jobRow(db, jobId)
    return job.status === status && job
  })
}

async function claims(db: TestDatabase): Promise<number> {
  return (await db.pool.query('select from leasehold.claim')).rowCount!
}

async function history(db: TestDatabase, jobId: JobId): Promise<string[]> {
  const { rows } = await db.pool.query<{ line: string }>(
    `select lease_generation || ' ' || outcome as line from leasehold.job_attempt where job_id = $1 order by 1`,
    [jobId],
  )
  return rows.map(({ line }) => line)
}

/** Another worker, started when every lease so far is over. */
async function successor(t: TestContext, db: TestDatabase) {
  await db.clock.advance('31s')
  return startWorker(t, db.url, { options: PATIENT })
}

test('a job whose worker is killed in its handler runs again, when its lease is over and not later than a sweep after', async (t) => {
  const db = await countingDatabase(t)
  const from = new Date()
  const at = (ms: number) => new Date(from.getTime() + ms)
  await db.clock.stopAt(from)
  const jobId = await enqueue(db, 'wait')
  const options = { lease: '30s', sweep: '1s' } as const
  const first = await startWorker(t, db.url, { options })
  await first.prints('started')
  const second = await startWorker(t, db.url, { options })
  first.kill('SIGKILL')
  await first.ends()
  assert.deepEqual((await jobRow(db, jobId)).lease_expires_at, at(30 * SECOND))

  // One sweep while the lease still lasts, and the next after it. In small steps: a long gap without sweeps would count as
  // an outage, and the sweep would wait.
  for (const step of [6, 12, 18, 24]) {
    await db.clock.stopAt(at(step * SECOND))
    await looked(db, at(step * SECOND))
  }
  const justBefore = at(30 * SECOND - 1)
  await db.clock.stopAt(justBefore)
  await looked(db, justBefore)
  // It took the duty. Claims go the same way as sweeps, so when it has claimed twice since, it has swept.
  for (const _ of ['first', 'second']) {
    const other = await enqueue(db, 'nothing')
    await second.prints('completed', (line) => line.jobId === other)
  }
  assert.equal((await jobRow(db, jobId)).claimed_by, first.id)
  second.go()
  await db.clock.stopAt(at(31 * SECOND - 1))
  const job = await jobIs(db, jobId, 'completed')
  assert.deepEqual(job.claimed_at, at(31 * SECOND - 1))
  assert.equal(job.claimed_by, second.id)
  // It was alone, so it is to blame, and its attempt is spent.
  assert.deepEqual([job.lease_generation, job.attempts], ['2', 2])
  assert.deepEqual(await history(db, jobId), ['1 crashed'])
  assert.deepEqual(await countByStatus(db), { completed: 3 })
})

test('jobs whose worker is killed with others on board get their attempts back', async (t) => {
  const db = await countingDatabase(t)
  const jobIds = [await enqueue(db, 'wait'), await enqueue(db, 'wait'), await enqueue(db, 'wait')]
  const first = await startWorker(t, db.url, { options: PATIENT })
  for (const jobId of jobIds) await first.prints('started', (line) => line.jobId === jobId)
  first.kill('SIGKILL')
  await first.ends()
  const second = await successor(t, db)
  second.go()
  for (const jobId of jobIds) {
    const { lease_generation, attempts } = await jobIs(db, jobId, 'completed')
    assert.deepEqual([lease_generation, attempts], ['2', 1])
    assert.deepEqual(await history(db, jobId), ['1 crashed'])
  }
  assert.deepEqual(await countByStatus(db), { completed: 3 })
})

test('killed before its claim commits: the job is pending, and nothing has happened', async (t) => {
  const db = await countingDatabase(t)
  const keeper = await db.connect()
  await keeper.query(`
    create function wait_at_the_gate() returns trigger language plpgsql
      as $$ begin perform pg_advisory_xact_lock_shared(1); return new; end $$;
    create trigger gate before insert on leasehold.claim for each row execute function wait_at_the_gate();
    select pg_advisory_lock(1)`)
  const first = await startWorker(t, db.url, { options: PATIENT })
  const jobId = await enqueue(db, 'nothing')
  const blocked = `select pid from pg_stat_activity
    where wait_event_type = 'Lock' and query like '-- job.claim%' and datname = current_database()`
  const { pid } = await until('the claim waits', async () => (await keeper.query(blocked)).rows[0])
  first.kill('SIGKILL')
  await first.ends()
  // A backend that waits for a lock does not notice that its client is gone.
  await keeper.query('select pg_terminate_backend($1)', [pid])
  await until('its backend is gone', async () => (await keeper.query(blocked)).rowCount === 0)
  await keeper.query('select pg_advisory_unlock(1)')
  const job = await jobRow(db, jobId)
  assert.deepEqual([job.status, job.lease_generation, job.attempts, await claims(db)], ['pending', '0', 0, 0])

  await startWorker(t, db.url, { options: PATIENT }) // No lease has to end first.
  const { lease_generation, attempts } = await jobIs(db, jobId, 'completed')
  assert.deepEqual([lease_generation, attempts, await history(db, jobId)], ['1', 1, []])
})

test('killed after its claim, before the reply: the job is processing, and runs after the lease', async (t) => {
  const db = await countingDatabase(t)
  const proxy = await proxyTo(t, db)
  const jobId = await enqueue(db, 'nothing')
  const claimed = proxy.cutReplies('leasehold/job.claim').then(() => proxy.freeze())
  const first = await startWorker(t, proxy.url(db.url), { options: PATIENT })
  await claimed
  first.kill('SIGKILL')
  await isLeftProcessing(db, first, jobId)
  assert.equal(first.all('started').length, 0)
  await isCompletedByAnother(t, db, jobId)
})

test('killed after its claim, before the handler starts: the job is processing, and runs after the lease', async (t) => {
  const db = await countingDatabase(t)
  const jobId = await enqueue(db, 'nothing')
  const first = await startWorker(t, db.url, { options: PATIENT, dieWhen: 'started' })
  await isLeftProcessing(db, first, jobId)
  await isCompletedByAnother(t, db, jobId)
})

test('killed in the handler: the job is processing, and runs again after the lease', async (t) => {
  const db = await countingDatabase(t)
  const jobId = await enqueue(db, 'die once')
  const first = await startWorker(t, db.url, { options: PATIENT })
  await isLeftProcessing(db, first, jobId)
  await isCompletedByAnother(t, db, jobId)
})

test('killed after the effect, before the outcome: the job is processing, and its effect happens twice', async (t) => {
  const db = await countingDatabase(t)
  await db.pool.query('create table effect (job_id bigint, generation bigint)')
  const jobId = await enqueue(db, 'effect, die once')
  const first = await startWorker(t, db.url, { options: PATIENT })
  await isLeftProcessing(db, first, jobId)
  await isCompletedByAnother(t, db, jobId)
  const { rows } = await db.pool.query('select * from effect order by generation')
  // A handler that stores the generation beside its effect can distinguish the two.
  assert.deepEqual(
    rows,
    [1, 2].map((generation) => ({ job_id: jobId, generation: String(generation) })),
  )
})

test('killed after the outcome, before the reply: the job is completed, and never runs again', async (t) => {
  const db = await countingDatabase(t)
  const proxy = await proxyTo(t, db)
  const jobId = await enqueue(db, 'nothing')
  const reported = proxy.cutReplies(/leasehold\/job\.(complete|turn)/).then(() => proxy.freeze())
  const first = await startWorker(t, proxy.url(db.url), { options: PATIENT })
  await reported
  first.kill('SIGKILL')
  assert.deepEqual(await first.ends(), { code: null, signal: 'SIGKILL' })
  assert.equal(first.all('completed').length, 0)
  assert.equal((await jobRow(db, jobId)).status, 'completed')
  assert.equal(await claims(db), 1)

  const second = await successor(t, db)
  await until('its claim is swept', async () => (await claims(db)) === 0)
  const { lease_generation, attempts, claimed_by } = await jobRow(db, jobId)
  assert.deepEqual([lease_generation, attempts, claimed_by], ['1', 1, first.id])
  assert.deepEqual([await history(db, jobId), await countByStatus(db)], [[], { completed: 1 }])
  assert.deepEqual([second.all('started').length, second.all('recovered').length], [0, 0])
})

async function proxyTo(t: TestContext, db: TestDatabase): Promise<FaultyProxy> {
  const { hostname: host, port } = new URL(db.url)
  const proxy = await startFaultyProxy({ host, port: Number(port) })
  t.after(() => proxy.stop())
  return proxy
}

/** The process was killed, and the database still shows it as working. */
async function isLeftProcessing(db: TestDatabase, worker: WorkerProcess, jobId: JobId): Promise<void> {
  assert.deepEqual(await worker.ends(), { code: null, signal: 'SIGKILL' })
  const { status, claimed_by, lease_generation, attempts } = await jobRow(db, jobId)
  assert.deepEqual([status, claimed_by, lease_generation, attempts], ['processing', worker.id, '1', 1])
  assert.equal(await claims(db), 1)
}

async function isCompletedByAnother(t: TestContext, db: TestDatabase, jobId: JobId): Promise<void> {
  const second = await successor(t, db)
  const { claimed_by, lease_generation, attempts } = await jobIs(db, jobId, 'completed')
  assert.deepEqual([claimed_by, lease_generation, attempts], [second.id, '2', 2])
  assert.deepEqual([await history(db, jobId), await countByStatus(db)], [['1 crashed'], { completed: 1 }])
}

/** A sweep began at that time. */
async function looked(db: TestDatabase, at: Date): Promise<void> {
  await until('the survivor sweeps', async () => {
    const { rows } = await db.pool.query('select looked_at from leasehold.sweep')
    return rows[0].looked_at?.getTime() === at.getTime()
  })
}
