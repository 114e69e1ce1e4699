// Common mistakes, and the messages they get.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { test } from 'node:test'
import pg from 'pg'
import type { ConnectionOptions } from '../../src/db/connection.ts'
import { handle, kind, Leasehold, withTransaction } from '../../src/index.ts'
import { statusTable } from '../../src/tables/index.ts'
import { until } from '../support/until.ts'
import { doing, inTime, next, scene } from '../support/worker.ts'

const task = kind<number>('task')

test('without the schema every call asks for migrate(), also inside a transaction', async (t) => {
  const { db, undo } = await scene(t)
  const lh = new Leasehold({ pool: db.pool, schema: 'nowhere' })
  const unmigrated = { code: 'SCHEMA', message: /"nowhere".*migrate\(\)/ }
  await assert.rejects(lh.enqueue(task, 1), unmigrated)
  await assert.rejects(lh.get('1'), unmigrated)
  await assert.rejects(lh.drain([handle(task, () => {})]), unmigrated)
  await assert.rejects(
    withTransaction(db.pool, (tx) => lh.enqueue(task, 1, { tx })),
    unmigrated,
  )
  undo.after(() => lh.close())
})

test('a worker whose login is refused rejects instead of retrying for ever', async (t) => {
  const { db } = await scene(t)
  const elsewhere = new URL(db.url)
  elsewhere.pathname = '/no_such_database'
  const lh = new Leasehold({ connectionString: elsewhere.href, log: () => {} })
  const worker = lh.worker([handle(task, () => {})], { signals: [] })
  await assert.rejects(inTime(worker.run(), 'it tries for ever'), { code: '3D000' })
  await lh.close()
})

test('a pool without an error listener does not end the process when a connection breaks', async (t) => {
  const { db, undo } = await scene(t)
  const pool = new pg.Pool({ connectionString: db.url })
  const lines: string[] = []
  const lh = new Leasehold({ pool, log: ({ message }) => lines.push(message) })
  undo.after(() => pool.end())
  await lh.list()
  await db.pool.query(
    `select pg_terminate_backend(pid) from pg_stat_activity
      where query like '-- inspect.%' and datname = current_database()`,
  )
  await until('it is logged', () => lines.includes('an idle connection was lost'))
})

test('a log that throws or rejects does not disturb the worker', async (t) => {
  const rejecting = (async () => Promise.reject(new Error('no log'))) as () => void
  const throwing = () => {
    throw new Error('no log')
  }
  for (const log of [rejecting, throwing]) {
    const { lh, worker } = await scene(t, { log })
    const fails = kind<number>('fails', { maxAttempts: 1 })
    const busy = worker([handle(fails, () => Promise.reject(new Error('no luck')))])
    const dead = next(busy, 'dead_letter')
    await lh.enqueue(fails, 1)
    await dead
  }
})

test('a failed attempt is logged, and a lasting problem is logged once', async (t) => {
  const { lh, log, worker } = await scene(t)
  const fails = kind<number>('fails', { backoff: { first: '1h' } })
  const busy = worker([handle(fails, () => Promise.reject(new Error('no luck')))])
  const retrying = next(busy, 'retrying')
  await lh.enqueue(fails, 1)
  await retrying
  assert.match(log.at(-1)!.message, /^job 1 \(fails\) failed, attempt 1 of 5; again in \d+ ms$/)

  const away = new Leasehold({ connectionString: 'postgres://127.0.0.1:1/x', log: (entry) => log.push(entry) })
  const lost = away.worker([handle(task, () => {})], { signals: [] })
  let problems = 0
  lost.on('problem', () => problems++)
  const running = lost.run()
  await until('it has tried again', () => problems >= 2)
  await lost.stop()
  await running
  const trouble = log.filter(({ message }) => message.includes('connecting'))
  assert.equal(trouble.length, 1)
  assert.match(trouble[0]!.message, /trying again: connect ECONNREFUSED/)
})

test('invalid calls are refused with the name of the option', async (t) => {
  const { lh, db } = await scene(t)
  const refused = (option: string) => ({ code: 'INVALID_OPTION', option })
  const bad = (value: unknown) => value as never
  assert.throws(() => new Leasehold(bad(undefined)), refused('Leasehold'))
  assert.throws(() => new Leasehold({}), refused('Leasehold'))
  assert.throws(() => new Leasehold({ pool: bad({}) }), refused('Leasehold.pool'))
  const both: ConnectionOptions = { pool: db.pool, connectionString: db.url }
  assert.throws(() => new Leasehold(both), refused('Leasehold.pool'))
  assert.throws(() => handle(bad('task'), () => {}), refused('kind'))
  assert.throws(() => handle(bad(undefined), () => {}), refused('kind'))
  assert.throws(() => lh.worker(bad(handle(task, () => {}))), refused('handlers'))
  assert.throws(() => lh.claim([]), refused('kinds'))
  await assert.rejects(lh.redrive(bad(undefined)), refused('redrive'))
  await assert.rejects(lh.enqueue(task, 1, { at: bad('2030-01-01') }), refused('at'))
  await assert.rejects(lh.enqueue(task, 1, { tx: bad(db.pool) }), refused('tx'))
  await assert.rejects(lh.get('abc'), refused('jobId'))
})

test('stopping a worker with running handlers logs how long that may take', async (t) => {
  const { busy, add, log } = await doing(t, ({ signal }) => once(signal, 'abort'), { worker: { label: 'here' } })
  const started = next(busy, 'started')
  await add()
  await started
  const stopped = busy.stop({ grace: '2h' })
  await until('it is logged', () => log.some(({ message }) => message.includes('stopping')))
  await busy.stop({ grace: 0 })
  await stopped
  assert.equal(
    log.find(({ level }) => level === 'warn')?.message,
    'worker here is stopping: 1 handler has up to 7200 s to end',
  )
})

const message = (pattern: RegExp) => ({ code: 'INVALID_OPTION', message: pattern })
const wrong = (value: unknown) => value as never

test('enqueueMany with bare inputs asks for { input }', async (t) => {
  const { lh } = await scene(t)
  const order = kind<{ orderId: number }>('order')
  const advice =
    /enqueueMany\[0\].* has no input; write enqueueMany\(kind, inputs\.map\(\(input\) => \(\{ input \}\)\)\)/
  await assert.rejects(lh.enqueueMany(order, wrong([{ orderId: 1 }])), message(advice))
  await assert.rejects(lh.enqueueMany(task, wrong([1])), message(/enqueueMany\[0\].* has no input/))
  await assert.rejects(lh.enqueueMany(task, wrong({ input: 1 })), message(/must be a list/))
})

test('cancel and redrive with a value that is no id speak of jobId', async (t) => {
  const { lh } = await scene(t)
  const noId = message(/^The option jobId .*"abc" is not an id; pass the string that enqueue\(\)/)
  await assert.rejects(lh.cancel('abc'), noId)
  await assert.rejects(lh.redrive('abc'), noId)
  await assert.rejects(lh.cancel(wrong(7n)), message(/bigint is not an id/))
})

test('a backoff that is a duration gets the object to write', () => {
  const backoff = wrong('1s')
  assert.throws(() => kind('x', { backoff }), message(/write \{ first: '1s', max: '1h' \}/))
  assert.throws(() => statusTable('x', { backoff }), message(/write \{ first: '1s', max: '1h' \}/))
  assert.throws(() => kind('x', { backoff: wrong(500) }), message(/write \{ first: 500, max: '1h' \}/))
})

test('a negative duration is called negative', async (t) => {
  const { lh } = await scene(t)
  await assert.rejects(lh.enqueue(task, 1, { delay: -5 }), message(/delay .* it is negative; .* not -5/))
  await assert.rejects(lh.enqueue(task, 1, { delay: wrong('-5s') }), message(/delay .* it is negative; .* not "-5s"/))
  await assert.rejects(lh.enqueue(task, 1, { delay: wrong('5 min') }), message(/must be a duration .* not "5 min"/))
})

test('a call after close() says that it was closed', async (t) => {
  const { db } = await scene(t)
  const lh = new Leasehold({ connectionString: db.url })
  await lh.list()
  await lh.close()
  const closed = /close\(\) was called on this Leasehold/
  await assert.rejects(lh.enqueue(task, 1), closed)
  await assert.rejects(lh.enqueueMany(task, [{ input: 1, idempotencyKey: 'k' }]), closed)
  await assert.rejects(lh.get('1'), closed)
})

test('two kinds of one name with different options are logged once', async (t) => {
  const { lh, log } = await scene(t)
  const warnings = () => log.filter(({ level }) => level === 'warn').map(({ message }) => message)
  await lh.enqueue(kind<number>('twice', { maxAttempts: 3 }), 1)
  await lh.enqueue(kind<number>('twice', { maxAttempts: 3 }), 1)
  assert.deepEqual(warnings(), [])
  await lh.drain([handle(kind<number>('twice', { maxAttempts: 5, timeout: '1m' }), () => {})])
  await lh.enqueue(kind<number>('twice', { priority: 0 }), 1)
  assert.deepEqual(warnings(), [
    'two kinds are named twice and differ in maxAttempts, timeout; declare the kind once and import it everywhere',
  ])
})

test('a pause that is given a name gets the object to write', async (t) => {
  const { lh } = await scene(t)
  const advice = message(/write \{ queue: "mail" \} or \{ kind: "mail" \}/)
  await assert.rejects(lh.pause(wrong('mail')), advice)
  await assert.rejects(lh.resume(wrong('mail')), advice)
  await assert.rejects(lh.pause(wrong({})), message(/name a queue or a kind: \{ queue: … \} or \{ kind: … \}/))
})

test('two options that exclude each other, and values of a wrong type, get the way out', async (t) => {
  const { lh, db } = await scene(t)
  await assert.rejects(lh.enqueue(task, 1, { at: new Date(), delay: '5m' }), message(/exclusive; leave one out/))
  await assert.rejects(lh.enqueue(task, 1, wrong('receipt-1')), message(/object of options; known are tx, onConflict,/))
  await assert.rejects(lh.enqueue(task, 1, { idempotencyKey: wrong(5) }), message(/non-empty string, not 5/))
  await assert.rejects(
    lh.redrive(wrong({ kind: 'task' })),
    message(/a job id, a list of ids, or \{ kind, reason, partitionKey, limit \}/),
  )
  const chores = (value: unknown) => () => lh.worker([handle(task, () => {})], { chores: wrong(value) })
  assert.throws(chores({}), message(/must be a list: \[\{ name: 'clean up', every: '1h', run:/))
  assert.throws(chores([{ name: 'a', every: '1s' }]), message(/chores\[0\] .* no run\(\); write \[\{ name:/))
  const both = { pool: db.pool, connectionString: db.url }
  assert.throws(() => new Leasehold(both), message(/exclusive; leave one out/))
  const unset = message(
    /needs a connectionString or a pool; connectionString is undefined, so its environment variable/,
  )
  assert.throws(() => new Leasehold(wrong({ connectionString: undefined })), unset)
  assert.throws(() => new Leasehold({}), message(/needs a connectionString or a pool\.$/))
})

test('a transaction in which a statement failed gets the way out', async (t) => {
  const { lh, db } = await scene(t)
  const failed = async (work: (tx: pg.ClientBase) => Promise<unknown>) =>
    withTransaction(db.pool, async (tx) => {
      await tx.query('selec').catch(() => {})
      await work(tx)
    })
  const advice = /let that error throw, or use a savepoint/
  await assert.rejects(
    failed((tx) => lh.enqueue(task, 1, { tx })),
    message(advice),
  )
  const rolledBack = { code: 'ROLLED_BACK', message: /Let that error throw, or run the statement under a savepoint/ }
  await assert.rejects(
    failed(async () => {}),
    rolledBack,
  )
})
