// A job that kills its process is identified, at no cost to other jobs (decisions/0007). A worker that dies is started
// again, as by a service manager.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { Leasehold, type WorkerOptions } from '../../src/index.ts'
import { countingDatabase, type TestDatabase } from '../support/database.ts'
import { startWorker, type WorkerProcess } from '../support/processes.ts'
import { countByStatus, jobRow } from '../support/queue.ts'
import { until } from '../support/until.ts'
import { work } from './programs/jobs.ts'

/** Keeps so many workers alive until the condition holds, and returns how many have died. */
async function keepAlive(
  t: TestContext,
  db: TestDatabase,
  options: WorkerOptions & { readonly workers: number },
  isOver: () => Promise<boolean>,
): Promise<number> {
  const { workers, ...rest } = options
  const start = () => startWorker(t, db.url, { options: { lease: '30s', ...rest } })
  const alive: WorkerProcess[] = await Promise.all(Array.from({ length: workers }, start))
  let deaths = 0
  await until('it is over', async () => {
    for (const [index, worker] of alive.entries()) {
      if (!worker.isGone) continue
      assert.deepEqual(await worker.ends(), { code: null, signal: 'SIGKILL' })
      deaths++
      // Only the leases of the dead are expired at once; otherwise it would take half a minute.
      await db.pool.query('update leasehold.claim set expires_at = leasehold.clock() where worker_id = $1', [worker.id])
      alive[index] = await start()
    }
    return isOver()
  })
  return deaths
}

test('one job of 500 kills its process each time: one dead letter, 499 completed, and no attempt of theirs spent', async (t) => {
  const db = await countingDatabase(t)
  const jobs = Array.from({ length: 500 }, (_, n) => ({ input: { act: n === 250 ? 'die' : 'nothing', n } as const }))
  const enqueued = await new Leasehold({ pool: db.pool }).enqueueMany(work, jobs)
  const deaths = await keepAlive(t, db, { workers: 2, concurrency: 500 }, async () => {
    const { completed = 0, dead_letter = 0 } = await countByStatus(db)
    return completed + dead_letter === 500
  })

  assert.deepEqual(await countByStatus(db), { completed: 499, dead_letter: 1 })
  const poison = await jobRow(db, enqueued[250]!.jobId)
  assert.deepEqual([poison.status, poison.reason, poison.attempts], ['dead_letter', 'lease_expired', 3])
  // In the company of all, of fifteen others, and alone for each of its three attempts.
  assert.deepEqual([deaths, poison.crashes, poison.lease_generation], [5, 5, '5'])
  const { rows } = await db.pool.query(
    `select attempts, count(*)::int as jobs from leasehold.archive where status = 'completed' group by 1`,
  )
  assert.deepEqual(rows, [{ attempts: 1, jobs: 499 }])
})

test('a job alone that kills its process each time is a dead letter after its attempts', async (t) => {
  const db = await countingDatabase(t)
  const { jobId } = await new Leasehold({ pool: db.pool }).enqueue(work, { act: 'die' })
  const isDead = async () => (await jobRow(db, jobId)).status === 'dead_letter'
  assert.equal(await keepAlive(t, db, { workers: 1 }, isDead), 3)
  const { reason, attempts, lease_generation } = await jobRow(db, jobId)
  assert.deepEqual([reason, attempts, lease_generation], ['lease_expired', 3, '3'])
  const { rows } = await db.pool.query('select outcome from leasehold.job_attempt order by lease_generation')
  assert.deepEqual(
    rows.map(({ outcome }) => outcome),
    ['crashed', 'crashed', 'crashed'],
  )
})
