// What an operator sees of a worker: how long jobs waited and ran, who logs, and which connection is whose.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { handle, kind } from '../../src/index.ts'
import { until } from '../support/until.ts'
import { next, scene } from '../support/worker.ts'

const task = kind<number>('task', { maxAttempts: 2 })

test('events carry how long a job waited since it was due, and how long its handler ran', async (t) => {
  const { lh, db, worker } = await scene(t)
  await lh.enqueue(task, 1, { partitionKey: 'order:1' })
  await db.clock.advance('90 seconds')
  const busy = worker([handle(task, () => {})])
  const [started, completed] = await Promise.all([next(busy, 'started'), next(busy, 'completed')])
  assert.ok(started.waitMs >= 90_000 && started.waitMs < 180_000, String(started.waitMs))
  assert.equal(completed.waitMs, started.waitMs)
  assert.ok(completed.durationMs >= 0)
  assert.equal(completed.partitionKey, 'order:1')
})

test('a log line about a job carries the worker, the job, its generation, attempt and key', async (t) => {
  const { lh, log, worker } = await scene(t)
  const busy = worker(
    [
      handle(task, () => {
        throw new Error('on purpose')
      }),
    ],
    { label: 'mailer-1' },
  )
  const retrying = next(busy, 'retrying')
  const { jobId } = await lh.enqueue(task, 1, { partitionKey: 'order:1' })
  const { generation } = await retrying
  const line = log.find(({ level }) => level === 'warn')!
  const { message, error, ...fields } = line
  assert.deepEqual(fields, {
    level: 'warn',
    worker: 'mailer-1',
    jobId,
    kind: 'task',
    queue: 'task',
    generation,
    attempt: 1,
    partitionKey: 'order:1',
  })
})

test('a worker logs in one line that it is up, and its connections carry its label', async (t) => {
  const { db, log, worker } = await scene(t)
  worker([handle(task, () => {}), handle(kind('other'), () => {})], { label: 'mailer-1' })
  await until('it is up', () => log.some(({ message }) => message.includes('is up')))
  assert.equal(log[0]!.message, 'worker mailer-1 is up: handles "task", "other", 10 at a time; listens for new work')
  const names = `select from pg_stat_activity where application_name = 'leasehold mailer-1' and datname = current_database()`
  assert.ok((await db.pool.query(names)).rowCount! >= 2)
})
