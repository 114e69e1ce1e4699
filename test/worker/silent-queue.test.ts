// A queue with wakeUp: false: no enqueue notifies workers.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { Lane } from '../../src/db/lane.ts'
import { handle, kind, queue } from '../../src/index.ts'
import { releaseClaim } from '../../src/jobs/claim.ts'
import { claimNext, newWorker } from '../support/queue.ts'
import { until } from '../support/until.ts'
import { scene } from '../support/worker.ts'

const task = kind<number>('task')

async function silent(t: TestContext) {
  const setting = await scene(t)
  await setting.lh.configure([queue('task', { wakeUp: false })])
  return setting
}

test('no enqueue, redrive or release of a silent queue notifies, and its workers find the job by polling', async (t) => {
  const { lh, db, worker } = await silent(t)
  const heard: (string | undefined)[] = []
  const listener = await db.connect()
  listener.on('notification', ({ payload }) => heard.push(payload))
  await listener.query('listen "leasehold.wake"')
  const fatal = { jobId: (await lh.enqueue(task, 1)).jobId }
  await lh.enqueueMany(task, [{ input: 2 }])
  await lh.enqueue(task, 3, { idempotencyKey: 'k' })
  await lh.enqueue(task, 4, { priority: 0, metadata: {} })
  await db.pool.query("select leasehold.enqueue('task', '5')")
  const [job] = await lh.claim(task, { limit: 1 })
  await job!.bury(new Error('no'))
  await lh.redrive(job!.id)
  const [released] = await lh.claim(task)
  await released!.release()
  const lane = new Lane(db.pool)
  const own = newWorker()
  const [unheard] = await claimNext(lane, { queues: ['task'], worker: own })
  assert.equal((await releaseClaim(lane, own, unheard!.claimId)).length, 1)
  // Notifications arrive in the order of their commits: before this one came none.
  await db.pool.query("select leasehold.tell('wake', 'the last')")
  await until('the last one arrives', () => heard.includes('the last'))
  assert.deepEqual(heard, ['the last'])
  const done = new Set<string>()
  worker([handle(task, ({ id }) => void done.add(id))], { poll: 20 })
  await until('all are done', () => done.size === 5 && done.has(fatal.jobId))
})

test('a transaction that enqueued to a silent queue can be prepared, and the job exists when it commits', async (t) => {
  const { lh, db } = await silent(t)
  const { rows } = await db.pool.query('show max_prepared_transactions')
  if (rows[0].max_prepared_transactions === '0') return // A server of the user with prepared transactions disabled.
  const tx = await db.connect()
  const prepare = async (name: string, of: Parameters<typeof lh.enqueue>[0]) => {
    await tx.query('begin')
    const { jobId } = await lh.enqueue(of, 1, { tx })
    await tx.query(`prepare transaction '${name}'`)
    return jobId
  }
  const name = `silent_${process.pid}`
  const jobId = await prepare(name, task)
  assert.equal(await lh.get(jobId), undefined)
  await tx.query(`commit prepared '${name}'`)
  assert.equal((await lh.get(jobId))?.status, 'pending')
  await assert.rejects(prepare(`${name}_loud`, kind<number>('loud')), { code: '0A000' })
  await tx.query('rollback')
})
