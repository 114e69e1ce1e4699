// A worker that stops is shown as draining before it has stopped, and does not wait for the registry.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { handle, kind } from '../../src/index.ts'
import { gate } from '../support/gate.ts'
import { movableTimers } from '../support/movable-clock.ts'
import { until } from '../support/until.ts'
import { next, type Scene, scene, statements, untilStatus } from '../support/worker.ts'

const task = kind<number>('task')

async function stateOf({ lh }: Scene, label: string): Promise<string | undefined> {
  const all = [...(await lh.workers()), ...(await lh.workers({ state: 'stopped' }))]
  return all.find((one) => one.label === label)?.state
}

/** Oldest first. */
async function happened({ lh }: Scene, label: string): Promise<string[]> {
  return (await lh.fleetEvents())
    .filter((event) => event.label === label)
    .map(({ what }) => what)
    .reverse()
}

test('a worker that stops is noted as draining while its handlers end, goes on beating, and then as stopped', async (t) => {
  const setting = await scene(t)
  const { lh, db, worker } = setting
  const timers = movableTimers(t)
  const hold = gate()
  setting.undo.after(hold.open)
  const busy = worker([handle(task, () => hold.opened)], { label: 'leaver', grace: '1h', poll: '1h' })
  const started = next(busy, 'started')
  await lh.enqueue(task, 1)
  await started
  const names = statements(t)
  const stopping = busy.stop()
  await until('it drains', async () => (await stateOf(setting, 'leaver')) === 'draining')
  assert.ok(!names.slice(names.indexOf('worker.drains')).some((name) => name === 'job.claim'))
  await db.clock.advance('1 min')
  timers.pass(5_000)
  await until('it beats', async () => (await stateOf(setting, 'leaver')) === 'draining')
  assert.equal((await lh.workers({ state: 'draining', queue: 'task' })).length, 1)
  // A row that was deleted comes back as what it is.
  await db.pool.query('delete from leasehold.worker')
  timers.pass(5_000)
  await until('it is back', async () => (await stateOf(setting, 'leaver')) === 'draining')
  hold.open()
  await stopping
  assert.equal(await stateOf(setting, 'leaver'), 'stopped')
  assert.deepEqual(await happened(setting, 'leaver'), ['joined', 'draining', 'joined', 'left'])
})

test('the claim in flight when a worker stops is answered, then it is noted as draining, and no claim follows', async (t) => {
  const setting = await scene(t)
  const { lh, db, worker } = setting
  const client = await db.connect()
  const busy = worker([handle(task, () => {})], { label: 'leaver', poll: 20, sweep: '1h' })
  await next(busy, 'wakeup')
  await client.query('begin')
  await client.query('lock table leasehold.pause in access exclusive mode')
  await until('a claim waits', async () => {
    const { rows } = await db.pool.query(
      "select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock' and query like '-- job.claim%'",
    )
    return rows.length === 1
  })
  const names = statements(t)
  const stopping = busy.stop()
  assert.ok(!names.includes('worker.drains'))
  await client.query('commit')
  await stopping
  const left = names.filter((name) => name.startsWith('worker.') || name === 'job.claim')
  assert.deepEqual(left.slice(left.indexOf('worker.drains')), ['worker.drains', 'worker.stopped'])
  assert.equal((await lh.workers({ state: 'stopped' }))[0]!.drainingAt instanceof Date, true)
  await client.end()
})

test('a registry that does not answer delays neither the outcomes of a worker that stops nor its stop', async (t) => {
  const setting = await scene(t)
  const { lh, db, worker } = setting
  const timers = movableTimers(t)
  const hold = gate()
  const busy = worker([handle(task, () => hold.opened)], { poll: '1h' })
  const started = next(busy, 'started')
  const { jobId } = await lh.enqueue(task, 1)
  await started
  const client = await db.connect()
  await client.query('begin')
  await client.query('select from leasehold.worker for update')
  const names = statements(t)
  let isOver = false
  const stopping = busy.stop().then(() => {
    isOver = true
  })
  await until('it is sent', () => names.includes('worker.drains'))
  hold.open()
  await untilStatus(db, jobId, 'completed')
  await until('it has stopped', () => {
    if (!isOver) timers.pass(500)
    return isOver
  })
  await stopping
  await client.query('commit')
  await client.end()
})
