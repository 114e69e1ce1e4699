// The database's clock is the only one that decides. Workers whose own clock is an hour ahead or behind work beside an
// honest one. Each has a kind of its own, so that a test can choose who does what; all of them do `work`.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { type JobId, Leasehold, type WorkerOptions } from '../../src/index.ts'
import { fakeTime } from '../../tools/debian.ts'
import { countingDatabase, type TestDatabase } from '../support/database.ts'
import { needsFakeTime } from '../support/optional-program.ts'
import { startWorker, type WorkerProcess } from '../support/processes.ts'
import { countByStatus, jobRow } from '../support/queue.ts'
import { until } from '../support/until.ts'
import { type Act, work, workOf } from './programs/jobs.ts'

const withFakeTime = await needsFakeTime()

const HOUR = 3_600_000
const SHIFTS = { honest: 0, ahead: HOUR, behind: -HOUR }
type Name = keyof typeof SHIFTS
const NAMES = Object.keys(SHIFTS) as Name[]

async function start(t: TestContext, db: TestDatabase, name: Name, options: WorkerOptions = {}) {
  const env = name === 'honest' ? {} : await fakeTime(name === 'ahead' ? '+1h' : '-1h')
  const from = Date.now()
  const worker = await startWorker(t, db.url, { kinds: ['work', name], env, options: { lease: '30s', ...options } })
  // Otherwise the test would show nothing.
  const now = (worker.lines[0]!.now as number) - SHIFTS[name]
  assert.ok(now >= from && now <= Date.now(), `the clock of ${name} is not off by ${SHIFTS[name]} ms`)
  return worker
}

async function startAll(t: TestContext, db: TestDatabase): Promise<Map<Name, WorkerProcess>> {
  return new Map(await Promise.all(NAMES.map(async (name) => [name, await start(t, db, name)] as const)))
}

async function enqueue(db: TestDatabase, name: string, act: Act, delay?: '30m'): Promise<JobId> {
  const leasehold = new Leasehold({ pool: db.pool })
  return (await leasehold.enqueue(workOf(name), { act }, delay === undefined ? {} : { delay })).jobId
}

/** Each worker has claimed all that it sees as due: each has its own kind, and claims in the order of time. */
async function everyoneHasLooked(db: TestDatabase, workers: Map<Name, WorkerProcess>): Promise<void> {
  for (const [name, worker] of workers) {
    const jobId = await enqueue(db, name, 'nothing')
    await worker.prints('completed', (line) => line.jobId === jobId)
  }
}

test('a delayed job starts by the database’s clock, for producers with any clock', withFakeTime, async (t) => {
  const db = await countingDatabase(t)
  const workers = await startAll(t, db)
  const later: JobId[] = []
  for (const name of ['work', ...NAMES]) later.push(await enqueue(db, name, 'nothing', '30m'))
  for (const name of NAMES) {
    const jobId = await enqueue(db, name, 'enqueue for later')
    await workers.get(name)!.prints('completed', (line) => line.jobId === jobId)
  }
  await everyoneHasLooked(db, workers)
  const { rows } = await db.pool.query(`
    select id, status, lease_generation, available_at - created_at = interval '30 minutes' as for_later
    from leasehold.jobs where status <> 'completed' order by id`)
  assert.equal(rows.length, 7)
  assert.deepEqual(
    rows.slice(0, 4).map(({ id }) => id),
    later,
  )
  for (const row of rows)
    assert.deepEqual({ ...row, id: 0 }, { id: 0, status: 'pending', lease_generation: '0', for_later: true })

  await db.clock.advance('29 minutes')
  await everyoneHasLooked(db, workers)
  assert.deepEqual(await countByStatus(db), { pending: 7, completed: 9 })
  await db.clock.advance('1 minute')
  await until('all are completed', async () => (await countByStatus(db)).completed === 16)
  const again = await db.pool.query('select from leasehold.archive where lease_generation > 1 or attempts > 1')
  assert.equal(again.rowCount, 0)
})

test('a retry is due by the database’s clock, for workers with any clock', withFakeTime, async (t) => {
  const db = await countingDatabase(t)
  const workers = await startAll(t, db)
  for (const [name, worker] of workers) {
    const jobId = await enqueue(db, name, 'fail once')
    const { delayMs } = await worker.prints('retrying')
    const { rows } = await db.pool.query<{ delay_ms: string }>(
      `select 1000 * extract(epoch from j.available_at - a.ended_at) as delay_ms
       from leasehold.job j join leasehold.job_attempt a on a.job_id = j.id where j.id = $1`,
      [jobId],
    )
    assert.equal(Math.round(Number(rows[0]!.delay_ms)), Math.round(delayMs as number))
  }
  await everyoneHasLooked(db, workers)
  assert.deepEqual(await countByStatus(db), { pending: 3, completed: 3 })
  await db.clock.advance('45 minutes')
  await until('all are completed', async () => (await countByStatus(db)).completed === 6)
  const { rows } = await db.pool.query(`
    select attempts, lease_generation::int as generation, count(*)::int from leasehold.archive group by 1, 2 order by 1`)
  assert.deepEqual(rows, [
    { attempts: 1, generation: 1, count: 3 },
    { attempts: 2, generation: 2, count: 3 },
  ])
})

for (const name of ['ahead', 'behind'] as const) {
  test(
    `a lease expires by the database's clock, for a sweeper whose clock is an hour ${name}`,
    withFakeTime,
    async (t) => {
      const db = await countingDatabase(t)
      const jobId = await enqueue(db, work.name, 'wait')
      const honest = await start(t, db, 'honest', { sweep: '1h' })
      await honest.prints('started')
      const sweeper = await start(t, db, name)
      await sweepsOften(db)
      const { status, claimed_by, lease_generation } = await jobRow(db, jobId)
      assert.deepEqual([status, claimed_by, lease_generation], ['processing', honest.id, '1'])

      honest.kill('SIGKILL')
      await honest.ends()
      await sweepsOften(db)
      assert.equal((await jobRow(db, jobId)).claimed_by, honest.id)
      await db.clock.advance('30s')
      await sweeper.prints('started')
      sweeper.go()
      await sweeper.prints('completed')
      const completed = await jobRow(db, jobId)
      assert.deepEqual([completed.claimed_by, completed.lease_generation], [sweeper.id, '2'])
    },
  )
}

/** Waits for a few sweeps by the worker that sweeps every 200 ms. */
async function sweepsOften(db: TestDatabase): Promise<void> {
  const seen = new Set<number>()
  await until('a few sweeps', async () => {
    const { rows } = await db.pool.query(
      `select next_at from leasehold.duty where name = 'sweep' and next_at < leasehold.clock() + interval '1 second'`,
    )
    if (rows[0]) seen.add(rows[0].next_at.getTime())
    return seen.size > 3
  })
}
