// SIGTERM: the worker claims no more, lets handlers finish, releases the rest without spending an attempt, and exits by
// itself with no lease behind (decisions/0018).
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { type JobId, Leasehold, type WorkerOptions } from '../../src/index.ts'
import { startFaultyProxy } from '../../tools/faulty-proxy.ts'
import { countingDatabase, type TestDatabase } from '../support/database.ts'
import { type Line, startWorker } from '../support/processes.ts'
import { countByStatus, jobRow } from '../support/queue.ts'
import { until } from '../support/until.ts'
import { type Act, type Work, work } from './programs/jobs.ts'

const LEFT = { code: 0, signal: null }

function inputs(count: number, act: Act): { input: Work }[] {
  return Array.from({ length: count }, () => ({ input: { act } }))
}

async function enqueue(db: TestDatabase, act: Act): Promise<JobId> {
  return (await new Leasehold({ pool: db.pool }).enqueue(work, { act })).jobId
}

async function nothingIsHeld(db: TestDatabase): Promise<void> {
  assert.equal((await db.pool.query('select from leasehold.claim')).rowCount, 0)
  assert.equal((await db.pool.query('select from leasehold.job where claim_id is not null')).rowCount, 0)
}

/** Pending as if it had never been claimed, but for the generation. */
async function isReleased(db: TestDatabase, jobId: JobId, generation = '1'): Promise<void> {
  const { status, attempts, crashes, lease_generation } = await jobRow(db, jobId)
  assert.deepEqual([status, attempts, crashes, lease_generation], ['pending', 0, 0, generation])
}

/** The released ones. A claim in flight at SIGTERM may have claimed some of them once more. */
async function areHandedBack(db: TestDatabase, released: readonly Line[]): Promise<void> {
  const last = new Map(released.map(({ jobId, generation }) => [jobId as JobId, generation]))
  for (const [jobId, generation] of last) await isReleased(db, jobId, String(generation))
}

/** A worker whose handlers are quick claims ahead. Then it meets slow ones: four run, others wait to be started. */
async function claimsAhead(t: TestContext, db: TestDatabase, act: Act, options: WorkerOptions) {
  const jobs = [...inputs(500, 'nothing'), ...inputs(100, act)]
  const enqueued = await new Leasehold({ pool: db.pool }).enqueueMany(work, jobs)
  const slow = new Set<string | undefined>(enqueued.slice(500).map(({ jobId }) => jobId))
  const worker = await startWorker(t, db.url, { options: { lease: '30s', ...options } })
  const ofSlow = (event: string) => worker.all(event).filter(({ jobId }) => slow.has(jobId))
  await until('its slots are full', () => ofSlow('started').length === 4)
  return { worker, ofSlow }
}

test('SIGTERM lets handlers finish, releases jobs that have not started, and claims no more', async (t) => {
  const db = await countingDatabase(t)
  const { worker, ofSlow } = await claimsAhead(t, db, 'wait', { grace: '1h' })
  worker.kill('SIGTERM')
  await worker.prints('stopping')
  await until('only what runs is held', async () => (await countByStatus(db)).processing === 4)
  // The event follows the record.
  await until('its prefetched jobs are released', () => ofSlow('released').length > 0)
  const jobId = await enqueue(db, 'nothing')
  worker.go()
  assert.deepEqual(await worker.ends(), LEFT)

  await nothingIsHeld(db)
  assert.deepEqual(await countByStatus(db), { pending: 97, completed: 504 })
  await isReleased(db, jobId, '0')
  await areHandedBack(db, ofSlow('released'))
  assert.deepEqual([ofSlow('started').length, worker.all('aborted').length], [4, 0])
})

test('handlers that run longer than the grace period are aborted, and their jobs released with the rest', async (t) => {
  const db = await countingDatabase(t)
  const { worker, ofSlow } = await claimsAhead(t, db, 'heed once', { grace: '300ms' })
  worker.kill('SIGTERM')
  assert.deepEqual(await worker.ends(), LEFT)
  await nothingIsHeld(db)
  assert.deepEqual(await countByStatus(db), { pending: 100, completed: 500 })
  assert.deepEqual(
    ofSlow('aborted').map(({ reason }) => reason),
    Array(4).fill('stopping'),
  )
  assert.ok(ofSlow('released').length > 4, 'it had claimed nothing ahead')
  await areHandedBack(db, ofSlow('released'))
})

test('a handler that ignores its abort keeps its process, but not its job', async (t) => {
  const db = await countingDatabase(t)
  const jobId = await enqueue(db, 'wait')
  const worker = await startWorker(t, db.url, { options: { grace: '300ms', lease: '30s' } })
  await worker.prints('started')
  worker.kill('SIGTERM')
  await worker.prints('left') // run() has resolved.
  await isReleased(db, jobId)
  await nothingIsHeld(db)
  assert.equal(worker.isGone, false)
  worker.go()
  assert.deepEqual(await worker.ends(), LEFT)
  assert.equal(worker.all('handled').length, 1)
  await isReleased(db, jobId) // The outcome of the handler is dropped.
})

test('a second SIGTERM releases jobs at once, also with running handlers', async (t) => {
  const db = await countingDatabase(t)
  const jobIds = [await enqueue(db, 'wait'), await enqueue(db, 'heed once')]
  const worker = await startWorker(t, db.url, { options: { grace: '1h', lease: '30s' } })
  await until('both have started', () => worker.all('started').length === 2)
  worker.kill('SIGTERM')
  await worker.prints('stopping')
  assert.deepEqual(await countByStatus(db), { processing: 2 })
  worker.kill('SIGTERM')
  await worker.prints('left')
  for (const jobId of jobIds) await isReleased(db, jobId)
  await nothingIsHeld(db)
  assert.equal(worker.isGone, false)
  worker.kill('SIGTERM') // A third is Node's own.
  assert.deepEqual(await worker.ends(), { code: null, signal: 'SIGTERM' })
})

test('workers exit although the database does not reply, and their jobs run again', async (t) => {
  const db = await countingDatabase(t)
  const { hostname: host, port } = new URL(db.url)
  const proxy = await startFaultyProxy({ host, port: Number(port) })
  t.after(() => proxy.stop())
  const jobId = await enqueue(db, 'heed once')
  const options = { grace: '300ms', lease: '30s' } as const
  const busy = await startWorker(t, proxy.url(db.url), { options })
  await busy.prints('started')
  const idle = await startWorker(t, proxy.url(db.url), { options })
  await idle.prints('wakeup')
  proxy.freeze()
  for (const worker of [busy, idle]) worker.kill('SIGTERM')
  assert.deepEqual([await busy.ends(), await idle.ends()], [LEFT, LEFT])
  assert.equal((await busy.prints('aborted')).reason, 'stopping')

  // It could not release its jobs, so its lease has to end first.
  const { status, claimed_by, lease_generation } = await jobRow(db, jobId)
  assert.deepEqual([status, claimed_by, lease_generation], ['processing', busy.id, '1'])
  await db.clock.advance('31s')
  await startWorker(t, db.url)
  await until('it is completed', async () => (await countByStatus(db)).completed === 1)
})
