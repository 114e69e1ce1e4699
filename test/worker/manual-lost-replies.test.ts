// An outcome by hand whose reply was lost is sent again by the caller, and returns what the first one recorded.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Lane } from '../../src/db/lane.ts'
import { kind, type ManualJob } from '../../src/index.ts'
import { sweep } from '../../src/jobs/housekeeping.ts'
import { behindProxy } from '../support/behind-proxy.ts'
import { codeOf } from '../support/worker.ts'

const task = kind<number>('task', { maxAttempts: 1 })

const verbs: Record<string, (job: ManualJob<number>) => Promise<unknown>> = {
  complete: (job) => job.complete(),
  bury: (job) => job.bury(new Error('never')),
  snooze: (job) => job.snooze('1m'),
  release: (job) => job.release(),
  cancel: (job) => job.cancel('withdrawn'),
}

test('an outcome that was recorded, and whose reply was lost, is not refused when it is sent again', async (t) => {
  const { lh, far, proxy } = await behindProxy(t)
  const again = async (act: (job: ManualJob<number>) => Promise<unknown>, between = async (_: string) => {}) => {
    await lh.enqueue(task, 1)
    const [job] = await far.claim(task)
    const lost = proxy.cutReplies(/job\.(complete|settle)/)
    await assert.rejects(act(job!))
    await lost
    await between(job!.id)
    const answer = await act(job!)
    await lh.cancel(job!.id)
    return answer
  }
  for (const act of Object.values(verbs)) await again(act)
  assert.equal(await again((job) => job.fail(new Error('no route'))), 'dead_letter')
  await again(verbs.bury!, async (id) => void (await lh.redrive(id)))
})

test('an outcome that a requested cancellation turned into an end is not refused when it is sent again', async (t) => {
  const { lh, far, proxy } = await behindProxy(t)
  const returns: typeof verbs = { ...verbs, fail: (job: ManualJob<number>) => job.fail(new Error('no route')) }
  for (const name of ['fail', 'snooze', 'release'] as const) {
    const { jobId } = await lh.enqueue(task, 1)
    const [job] = await far.claim(task)
    await lh.cancel(jobId)
    const lost = proxy.cutReplies('job.settle')
    await assert.rejects(returns[name]!(job!))
    await lost
    const answer = await returns[name]!(job!)
    if (name === 'fail') assert.equal(answer, 'cancelled')
    assert.equal((await lh.get(jobId))?.status, 'cancelled')
  }
})

test('an outcome that never arrived is refused when the sweep has made the job a dead letter meanwhile', async (t) => {
  const { lh, far, proxy, db } = await behindProxy(t)
  for (const act of Object.values(verbs)) {
    const { jobId } = await lh.enqueue(task, 1)
    const [job] = await far.claim(task)
    proxy.refuse()
    proxy.cut()
    await assert.rejects(act(job!))
    proxy.accept()
    await db.pool.query('delete from leasehold.claim where not ($1::bigint = any (job_ids))', [jobId])
    await db.clock.advance('31 s')
    await sweep(new Lane(db.pool))
    assert.equal((await lh.get(jobId))?.reason, 'lease_expired')
    assert.equal(await codeOf(() => act(job!)), 'LEASE_LOST')
  }
})
