// In development a producer is warned of kinds that no live worker handles.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { Lane } from '../../src/db/lane.ts'
import { handle, kind, type LogEntry } from '../../src/index.ts'
import { UnhandledKinds, warnsOfUnhandledKinds } from '../../src/worker/unhandled-kinds.ts'
import { movableTimers } from '../support/movable-clock.ts'
import { connectAs, newRole } from '../support/roles.ts'
import { until } from '../support/until.ts'
import { lastFirst, scene, statements } from '../support/worker.ts'

const task = kind<number>('task')
const mail = kind<number>('mail')
const asked = (names: readonly string[]) => names.filter((name) => name === 'worker.not_handled').length
const warnings = (log: readonly LogEntry[]) =>
  log.filter(({ message }) => message.includes('no live worker')).map((entry) => entry.kind)

test('it warns in development, not in production and not in tests', () => {
  assert.deepEqual([undefined, 'development', 'staging', 'production', 'test'].map(warnsOfUnhandledKinds), [
    true,
    true,
    true,
    false,
    false,
  ])
})

test('a kind that no live worker handles is warned of once a minute, and only after a worker has run', async (t) => {
  const { lh, log } = await scene(t)
  const timers = movableTimers(t)
  const names = statements(t)
  await lh.enqueue(mail, 1)
  assert.equal(asked(names), 0, 'the enqueue does not wait for it')
  timers.pass(5_000)
  await until('it has asked', () => asked(names) === 1)
  await lh.drain([handle(task, () => {})]) // After the answer: it uses the same pool.
  assert.deepEqual(warnings(log), [], 'no worker has ever run')
  timers.pass(60_000)
  await lh.enqueueMany(mail, [{ input: 2 }, { input: 3 }])
  await lh.enqueue(task, 1)
  timers.pass(5_000)
  await until('it has warned', () => warnings(log).length === 2)
  assert.deepEqual(warnings(log).sort(), ['mail', 'task'])
  assert.equal(asked(names), 2, 'one statement for both')
  const { level, message } = log.find((entry) => entry.kind === 'mail')!
  assert.equal(level, 'warn')
  assert.match(message, /"mail".*start a worker whose handlers include it/)
  timers.pass(50_000)
  await lh.enqueue(mail, 4)
  timers.pass(5_000)
  await lh.drain([handle(task, () => {})])
  assert.equal(asked(names), 2)
})

test('a kind that a live worker handles is not warned of, until the worker is dead', async (t) => {
  const { lh, db, log, worker } = await scene(t)
  const timers = movableTimers(t)
  const names = statements(t)
  const busy = worker([handle(mail, () => {})])
  await until('it is registered', async () => (await lh.workers()).length === 1)
  await lh.enqueue(mail, 1)
  timers.pass(5_000)
  await until('it has asked', () => asked(names) === 1)
  await busy.abandon()
  assert.deepEqual(warnings(log), [])
  await db.clock.advance('16 s')
  timers.pass(60_000)
  await lh.enqueue(mail, 1)
  timers.pass(5_000)
  await until('it has warned', () => warnings(log).length === 1)
})

test('an enqueue in a transaction that stays open is asked about over another connection', async (t) => {
  const { lh, db, log } = await scene(t)
  await lh.drain([handle(task, () => {})])
  const timers = movableTimers(t)
  const tx = await db.connect()
  await tx.query('begin')
  await lh.enqueue(mail, 1, { tx })
  timers.pass(5_000)
  await until('it has warned', () => warnings(log).length === 1)
  const { rows } = await db.pool.query(
    "select query from pg_stat_activity where state = 'idle in transaction' and datname = current_database()",
  )
  assert.ok(rows.length === 1 && !rows[0].query.includes('not_handled'), JSON.stringify(rows))
  await tx.query('rollback')
  await tx.end()
})

test('a role that may not read the registry is never asked again, and nothing is logged', async (t) => {
  const undo = lastFirst(t)
  const role = await newRole(undo, 'nothing')
  const { db } = await scene(undo as TestContext)
  const client = await connectAs(undo, db, role)
  const timers = movableTimers(t)
  const log: LogEntry[] = []
  const names = statements(t)
  const kinds = new UnhandledKinds(new Lane(client), (entry) => log.push(entry))
  kinds.enqueued('mail')
  timers.pass(5_000)
  await until('it has asked', () => asked(names) === 1)
  await client.query('select 1') // After the answer.
  kinds.enqueued('task')
  timers.pass(65_000)
  await client.query('select 1')
  assert.deepEqual([asked(names), log], [1, []])
})
