import assert from 'node:assert/strict'
import { test } from 'node:test'
import { InvalidOptionError } from '../../src/core/errors.ts'
import { Lane } from '../../src/db/lane.ts'
import { renew } from '../../src/jobs/claim.ts'
import { complete } from '../../src/jobs/completion.ts'
import { enqueue } from '../../src/jobs/enqueue.ts'
import type { ClaimId, JobId } from '../../src/jobs/job.ts'
import { cancel, findDeadLetters, redrive } from '../../src/jobs/operator.ts'
import { settle } from '../../src/jobs/outcome.ts'
import { countGenerations, suiteDatabase } from '../support/database.ts'
import { claimNext, enqueueMany, enqueueOne, jobRow, newWorker } from '../support/queue.ts'

const db = await suiteDatabase()
await countGenerations(db)
const lane = new Lane(db.pool)
const worker = newWorker()

async function buried(queue: string, job = {}): Promise<JobId> {
  const id = await enqueueOne(lane, { queue, ...job })
  const [taken] = await claimNext(lane, { queues: [queue], kinds: ['mail'], worker })
  await settle(lane, worker, [{ ...taken!, verb: 'bury', error: new Error('no'), reason: 'fatal' }])
  return id
}

test('a pending job is cancelled at once, a running one is asked, an ended or unknown one is not found', async () => {
  const [pending, running] = await enqueueMany(lane, 2, { queue: 'cancel' })
  const [taken] = await claimNext(lane, { queues: ['cancel'], kinds: ['mail'], limit: 1, worker })
  assert.equal(taken?.jobId, pending, 'the first is the one that runs')
  const answers = await cancel(lane, [pending!, running!, '999999999' as JobId, running!])
  assert.deepEqual(answers, [
    { jobId: pending, outcome: 'requested' },
    { jobId: running, outcome: 'cancelled' },
    { jobId: '999999999', outcome: 'not_found' },
  ])
  assert.equal((await jobRow(db, running!)).status, 'cancelled')
  assert.ok((await jobRow(db, pending!)).cancel_requested_at instanceof Date)
  assert.deepEqual(await cancel(lane, [running!]), [{ jobId: running, outcome: 'not_found' }])
  assert.deepEqual(await claimNext(lane, { queues: ['cancel'], kinds: ['mail'] }), [])
})

test('a redriven dead letter keeps id, generation, history and key, and starts with fresh attempts', async () => {
  const id = await buried('redrive', { idempotencyKey: 'k', maxAttempts: 3, partitionKey: 'p' })
  assert.deepEqual(await redrive(lane, [id, id, '999999999' as JobId]), [id])
  const row = await jobRow(db, id)
  assert.deepEqual(
    [row.status, row.attempts, row.lease_generation, row.max_attempts, row.partition_key],
    ['pending', 0, '1', 3, 'p'],
  )
  assert.equal((row.last_error as { message: string }).message, 'no', 'the history is kept')
  const [again] = await enqueue(lane, [{ kind: 'mail', queue: 'redrive', input: { to: 'ada' }, idempotencyKey: 'k' }])
  assert.deepEqual(again, { jobId: id, outcome: 'existing' })
  const [taken] = await claimNext(lane, { queues: ['redrive'], kinds: ['mail'] })
  assert.deepEqual([taken?.jobId, taken?.generation, taken?.attempt], [id, 2, 1])
  assert.deepEqual(await redrive(lane, [id]), [], 'no dead letter any more')
})

test('dead letters are found by queue, kind and reason, oldest first', async () => {
  const ids = [await buried('find'), await buried('find'), await buried('find')]
  assert.deepEqual(await findDeadLetters(lane, { queue: 'find', limit: 2 }), ids.slice(0, 2))
  assert.deepEqual(await findDeadLetters(lane, { queue: 'find', kind: 'mail', reason: 'fatal' }), ids)
  assert.deepEqual(await findDeadLetters(lane, { queue: 'find', kind: 'other' }), [])
  assert.deepEqual(await findDeadLetters(lane, { queue: 'find', reason: 'expired' }), [])
})

test('an id that is not a number is refused before it is sent', async () => {
  const [first, second] = await enqueueMany(lane, 2, { queue: 'ids' })
  for (const id of [`${first},${second}`, '1},{2', '', '-1', '1e3', '1'.repeat(20), ' 1']) {
    await assert.rejects(cancel(lane, [id as JobId]), InvalidOptionError, id)
    await assert.rejects(redrive(lane, [id as JobId]), InvalidOptionError, id)
    await assert.rejects(
      complete(lane, worker, [{ jobId: id as JobId, claimId: '1' as ClaimId, generation: 1 }]),
      InvalidOptionError,
      id,
    )
  }
  assert.equal((await jobRow(db, first!)).status, 'pending')
})

test('empty lists are answered with empty lists', async () => {
  assert.deepEqual(await cancel(lane, []), [])
  assert.deepEqual(await redrive(lane, []), [])
  assert.deepEqual(await settle(lane, worker, []), [])
  assert.deepEqual(await complete(lane, worker, []), { refused: [], busy: [] })
  assert.deepEqual(await enqueue(lane, []), [])
  assert.deepEqual(await renew(lane, worker, [], 1_000), { held: [], lost: [] })
})
