import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Lane } from '../../src/db/lane.ts'
import type { JobId } from '../../src/jobs/job.ts'
import { cancel } from '../../src/jobs/operator.ts'
import { settle } from '../../src/jobs/outcome.ts'
import { suiteDatabase } from '../support/database.ts'
import { claimedBy, enqueueOne, jobRow, newWorker } from '../support/queue.ts'

const db = await suiteDatabase()
const lane = new Lane(db.pool)
const worker = newWorker()

const claimed = (queue: string) => claimedBy(lane, worker, queue)

test('a cancelled job keeps the first reason given', async () => {
  const reasonOf = async ({ jobId }: { jobId: JobId }) => {
    const { status, reason } = await jobRow(db, jobId)
    return [status, reason]
  }
  const thrown = await claimed('reason')
  await settle(lane, worker, [{ ...thrown, verb: 'cancel', error: new Error('order withdrawn') }])
  assert.deepEqual(await reasonOf(thrown), ['cancelled', 'order withdrawn'])
  const { rows } = await db.pool.query('select * from leasehold.attempts where job_id = $1', [thrown.jobId])
  const [attempt] = rows
  assert.deepEqual([attempt.outcome, attempt.error.message], ['cancelled', 'order withdrawn'])

  const running = await claimed('reason')
  await cancel(lane, [running.jobId], { by: 'ada', reason: 'customer called' })
  assert.deepEqual(await reasonOf(running), ['processing', 'customer called'])
  await settle(lane, worker, [{ ...running, verb: 'release' }])
  assert.deepEqual(await reasonOf(running), ['cancelled', 'customer called'])

  const both = await claimed('reason')
  await cancel(lane, [both.jobId], { reason: 'customer called' })
  await settle(lane, worker, [{ ...both, verb: 'cancel', error: new Error('order withdrawn') }])
  assert.deepEqual(await reasonOf(both), ['cancelled', 'order withdrawn'], 'the handler knows best')

  const jobId = await enqueueOne(lane, { queue: 'reason' })
  await cancel(lane, [jobId], { reason: 'customer called' })
  assert.deepEqual(await reasonOf({ jobId }), ['cancelled', 'customer called'])
  const hostile = await claimed('reason')
  await settle(lane, worker, [{ ...hostile, verb: 'cancel', error: new Error(`a\0b${'x'.repeat(5_000)}`) }])
  assert.equal((await jobRow(db, hostile.jobId)).status, 'cancelled', 'a reason that cannot be stored is repaired')
})
