// A worker that is suspended for longer than its lease (a sleeping machine, a debugger, a very long pause) has lost its jobs
// when it goes on. It detects that before it does any harm.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { Leasehold } from '../../src/index.ts'
import { countingDatabase } from '../support/database.ts'
import { startWorker, type WorkerProcess } from '../support/processes.ts'
import { countByStatus, jobRow } from '../support/queue.ts'
import { until } from '../support/until.ts'
import { type Act, type Work, work } from './programs/jobs.ts'

/** Real time, since a stopped process cannot be given another clock. Long enough for a busy machine. */
const LEASE = { options: { lease: '8s' } } as const

// Each waits for its own processes and leases, so all at once take little longer than one.
describe('a worker that is stopped for longer than its lease', { concurrency: true }, () => {
  test('a worker that was stopped past its lease finds its handler aborted and its outcome refused', async (t) => {
    const db = await countingDatabase(t)
    const { jobId } = await new Leasehold({ pool: db.pool }).enqueue(work, { act: 'defy once' })
    const paused = await startWorker(t, db.url, LEASE)
    await paused.prints('started')
    paused.kill('SIGSTOP')
    const other = await startWorker(t, db.url, { options: { lease: '30s' } })
    await until('the other completes it', async () => (await jobRow(db, jobId)).status === 'completed')
    const completed = await jobRow(db, jobId)
    assert.deepEqual([completed.claimed_by, completed.lease_generation], [other.id, '2'])
    assert.deepEqual(completed.result, { by: other.id })

    paused.kill('SIGCONT')
    const aborted = await paused.prints('aborted')
    assert.deepEqual([aborted.jobId, aborted.generation, aborted.reason], [jobId, 1, 'lease_lost'])
    assert.equal((await paused.prints('handled')).aborted, true)
    const refused = await paused.prints('refused')
    assert.deepEqual([refused.jobId, refused.generation, refused.outcome], [jobId, 1, 'complete'])
    assert.equal(paused.all('completed').length, 0)
    assert.deepEqual(await jobRow(db, jobId), completed)
  })

  test('a late outcome changes nothing while another worker has the job', async (t) => {
    const db = await countingDatabase(t)
    const { jobId } = await new Leasehold({ pool: db.pool }).enqueue(work, { act: 'wait' })
    const paused = await startWorker(t, db.url, LEASE)
    await paused.prints('started')
    paused.kill('SIGSTOP')
    const other = await startWorker(t, db.url, { options: { lease: '30s' } })
    await other.prints('started')

    paused.go()
    paused.kill('SIGCONT')
    const refused = await paused.prints('refused')
    assert.deepEqual([refused.jobId, refused.generation, refused.outcome], [jobId, 1, 'complete'])
    const running = await jobRow(db, jobId)
    assert.deepEqual([running.status, running.claimed_by, running.lease_generation], ['processing', other.id, '2'])

    other.go()
    await other.prints('completed')
    const { claimed_by, lease_generation, result } = await jobRow(db, jobId)
    assert.deepEqual([claimed_by, lease_generation, result], [other.id, '2', { by: other.id }])
  })

  for (const [what, act, slots] of [
    ['what a stopped worker had claimed ahead does not start there when it goes on', 'wait', 4],
    ['nor does it when a handler ends before any timer can ring', 'block once', 1],
  ] as const) {
    test(what, async (t) => {
      const db = await countingDatabase(t)
      const jobs = [...inputs(500, 'nothing'), ...inputs(100, act)]
      const enqueued = await new Leasehold({ pool: db.pool }).enqueueMany(work, jobs)
      const slow = new Set<string | undefined>(enqueued.slice(500).map(({ jobId }) => jobId))
      const ofSlow = (worker: WorkerProcess, event: string) => worker.all(event).filter(({ jobId }) => slow.has(jobId))
      // A worker whose handlers are quick claims ahead; then it meets slow ones.
      const paused = await startWorker(t, db.url, LEASE)
      await until('its slots are full', () => ofSlow(paused, 'started').length === slots)
      paused.kill('SIGSTOP')
      const { rowCount: held } = await db.pool.query(
        `select from leasehold.job where claim_id is not null and payload ->> 'act' = $1`,
        [act],
      )
      assert.ok(held! > slots, 'it claimed nothing ahead')

      const other = await startWorker(t, db.url, { options: { lease: '30s' } })
      other.go()
      await until('the other completes them', async () => (await countByStatus(db)).completed === 600)
      // Its handlers end when it goes on, and their slots are free.
      paused.go()
      paused.kill('SIGCONT')
      const refused = (verb: string) => ofSlow(paused, 'refused').filter(({ outcome }) => outcome === verb).length
      await until('its outcomes are refused', () => refused('complete') === slots)
      paused.kill('SIGTERM')
      assert.deepEqual(await paused.ends(), { code: 0, signal: null })
      assert.equal(ofSlow(paused, 'started').length, slots)
      // It knows nothing of a claim whose reply it had not read yet, and tries nothing.
      assert.equal(refused('complete'), slots)
      assert.equal(ofSlow(paused, 'refused').length, slots + refused('release'))
      assert.deepEqual(await countByStatus(db), { completed: 600 })
    })
  }
})

function inputs(count: number, act: Act): { input: Work }[] {
  return Array.from({ length: count }, () => ({ input: { act } }))
}
