// A worker compares what it declares with what was configured, and goes on either way.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { handle, kind } from '../../src/index.ts'
import { next, type Scene, scene } from '../support/worker.ts'

const receipt = kind<number>('send_receipt', { priority: 4, maxAttempts: 3, keep: false, keepKey: '2h' })
const handlers = [handle(receipt, () => {})]

/** But for those about kinds that this file declares twice on purpose. */
const warnings = ({ log }: Scene) =>
  log.filter(({ level, message }) => level === 'warn' && !message.startsWith('two kinds')).map(({ message }) => message)

test('a worker logs a warning per difference between its kinds and the configured ones', async (t) => {
  const setting = await scene(t)
  const stored = { queue: 'mail', priority: 4, maxAttempts: 5, keep: '36h', keepKey: '7d' } as const
  await setting.lh.configure([kind('send_receipt', stored), kind('other', { queue: 'elsewhere' })])
  await setting.lh.drain(handlers)
  assert.deepEqual(warnings(setting), [
    'kind send_receipt is configured with queue mail, this process declares send_receipt; run configure()',
    'kind send_receipt is configured with maxAttempts 5, this process declares 3; run configure()',
    'kind send_receipt is configured with keep 36h, this process declares false; run configure()',
    'kind send_receipt is configured with keepKey 7d, this process declares 2h; run configure()',
  ])
})

test('a worker logs nothing about kinds that are configured as it declares them', async (t) => {
  const setting = await scene(t, { retention: { effects: '1.1h' } })
  await setting.lh.configure([receipt])
  await setting.lh.drain(handlers)
  assert.deepEqual(warnings(setting), [])
})

test('a worker logs nothing about kinds that were never configured, paused ones included', async (t) => {
  const setting = await scene(t)
  await setting.lh.pause({ kind: receipt })
  await setting.lh.drain(handlers)
  assert.deepEqual(warnings(setting), [])
})

test('a worker logs a warning per retention that is stored otherwise', async (t) => {
  const setting = await scene(t, { retention: { deadLetters: '90d', attempts: '7d', workers: '10d' } })
  await setting.lh.drain(handlers)
  assert.deepEqual(warnings(setting), [
    'retention.deadLetters is configured as 30d, this process declares 90d; run configure()',
    'retention.workers is configured as 90d, this process declares 10d; run configure()',
  ])
})

test('a worker that cannot read the configuration starts all the same', async (t) => {
  const { lh, db, worker, log } = await scene(t, { retention: { attempts: '1d' } })
  await db.pool.query('alter table leasehold.settings rename to settings_elsewhere')
  await lh.enqueue(receipt, 1)
  await next(worker(handlers), 'completed')
  assert.ok(log.some(({ message }) => message === 'the stored configuration could not be compared with this process'))
})

test('jobs in a queue that their kind has left are reported by configure() and by a worker that starts', async (t) => {
  const setting = await scene(t)
  const { lh, db } = setting
  const moved = (queue: string) => kind<number>('send_receipt', { queue })
  // Each queue by a process of its own: two kinds of one name in one process are another warning.
  await setting.leasehold().enqueueMany(moved('mail'), [{ input: 1 }, { input: 2 }])
  await setting.leasehold().enqueueMany(
    moved('bulk'),
    Array.from({ length: 150 }, (_, input) => ({ input })),
  )
  await lh.enqueue(kind<number>('other', { queue: 'mail' }), 1)
  await lh.enqueue(moved('urgent'), 1)
  const line = (jobs: string, queue: string) =>
    `${jobs} pending jobs of kind send_receipt are in queue ${queue}, but the kind is declared with queue urgent; ` +
    `run a worker whose kind has queue ${queue} until they are done`
  const expected = [line('100 or more', 'bulk'), line('2', 'mail')]
  await lh.configure([moved('urgent')])
  assert.deepEqual(warnings(setting), expected)
  await lh.drain([handle(moved('urgent'), () => {})])
  assert.deepEqual(warnings(setting), [...expected, ...expected])

  setting.log.length = 0
  await db.pool.query("delete from leasehold.job where queue = 'bulk'")
  // A claimed job is not stranded: a worker has it.
  await setting.leasehold().claim(moved('mail'), { limit: 2 })
  await lh.drain([handle(moved('urgent'), () => {})])
  await lh.configure([])
  assert.deepEqual(warnings(setting), [])
})

test('a deploy that cannot look for such jobs succeeds all the same', async (t) => {
  const setting = await scene(t)
  await setting.db.pool.query('alter table leasehold.job rename to elsewhere')
  await setting.lh.configure([receipt])
  assert.deepEqual(warnings(setting), ['could not look for pending jobs in queues that their kinds have left'])
})
