// The fleet: which workers are active, draining, dead or stopped, and what happened to them.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { type TestContext, test } from 'node:test'
import { Lane } from '../../src/db/lane.ts'
import { handle, kind } from '../../src/index.ts'
import { BEAT } from '../../src/jobs/registry.sql.ts'
import { beat, noteDeaths, registerWorker } from '../../src/jobs/registry.ts'
import { gate } from '../support/gate.ts'
import { movableTimers } from '../support/movable-clock.ts'
import { startWorker } from '../support/processes.ts'
import { until } from '../support/until.ts'
import { collect, inTime, next, type Scene, scene, statements, unanswered } from '../support/worker.ts'

const task = kind<number>('task')
const INFO = {
  version: '0',
  mode: 'worker',
  host: 'h',
  pid: 1,
  kinds: ['task'],
  queues: ['task'],
  memoryLimitBytes: null,
  drains: false,
} as const
const VITALS = { held: 3, running: 2, eventLoopMs: 1.5, memoryBytes: 1_000 }
const SELF = { id: randomUUID(), label: 'self' }

/** Time stands still unless a test lets it pass. */
const standing = (t: TestContext) => movableTimers(t, { stands: true, runByThemselves: false })

/** A worker in the registry that never beats by itself. */
async function register({ db }: Scene, label = 'ghost'): Promise<{ id: string; label: string }> {
  const worker = { id: randomUUID(), label }
  await registerWorker(new Lane(db.pool), worker, INFO)
  return worker
}

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

const beats = (names: readonly string[]) => names.filter((name) => name === 'worker.beat').length

test('a beat is a heap-only update', async (t) => {
  const setting = await scene(t)
  const { id } = await register(setting)
  const client = await setting.db.connect()
  await client.query('begin')
  for (const held of [1, 2, 3]) await client.query(BEAT, [id, held, held, 0.5, 1_000, '{"mail": [1, 0]}'])
  const { rows } = await client.query(
    `select pg_stat_get_xact_tuples_updated(oid)::int as updated, pg_stat_get_xact_tuples_hot_updated(oid)::int as hot
     from pg_class where oid = 'leasehold.worker'::regclass`,
  )
  assert.deepEqual(rows, [{ updated: 3, hot: 3 }])
  await client.end()
})

test('a beat carries how the worker is doing', async (t) => {
  const setting = await scene(t)
  const { lh, worker } = setting
  const timers = movableTimers(t)
  const hold = gate()
  setting.undo.after(hold.open)
  const busy = worker([handle(task, () => hold.opened)], { label: 'busy', concurrency: 1 })
  const started = next(busy, 'started')
  await lh.enqueue(task, 1)
  await started
  const row = await until('a beat', async () => {
    timers.pass(5_000)
    const [one] = await lh.workers()
    return one?.running === 1 && one
  })
  assert.deepEqual([row.label, row.state, row.mode, row.pid], ['busy', 'active', 'worker', process.pid])
  assert.ok(row.held! >= 1 && row.memoryBytes! > 1e6 && row.eventLoopMs! >= 0, JSON.stringify(row))
  assert.ok(row.memoryLimitBytes === null || row.memoryLimitBytes > 0)
})

test('a worker is dead when it was not seen for 15 s, and one caller learns of it', async (t) => {
  const setting = await scene(t)
  const { db } = setting
  const from = Date.now()
  const at = (ms: number) => db.clock.stopAt(new Date(from + ms))
  const lane = new Lane(db.pool)
  await at(0)
  const ghost = await register(setting)
  assert.deepEqual(await beat(lane, ghost, VITALS), { silence: false })
  const other = await register(setting, 'other')
  await at(14_999)
  assert.deepEqual(await beat(lane, other, VITALS), { silence: false })
  assert.deepEqual(await noteDeaths(lane, SELF), [])
  assert.equal(await stateOf(setting, 'ghost'), 'active')
  await at(15_000)
  assert.deepEqual(await beat(lane, other, VITALS), { silence: true })
  assert.equal(await stateOf(setting, 'ghost'), 'dead', 'also before it is noted')
  const found = (await Promise.all([1, 2, 3].map(() => noteDeaths(lane, SELF)))).flat()
  assert.deepEqual(found, [{ workerId: ghost.id, label: 'ghost', silentMs: 15_000, held: 3, running: 2 }])
  assert.equal(await stateOf(setting, 'ghost'), 'dead')
  assert.deepEqual(await happened(setting, 'ghost'), ['joined', 'died'])
  const [died] = await setting.lh.fleetEvents({ workerId: ghost.id, limit: 1 })
  assert.deepEqual([died!.detail!.noted_by, died!.detail!.held, died!.at], [SELF.id, 3, new Date(from + 15_000)])
  assert.deepEqual(await beat(lane, other, VITALS), { silence: false })
})

test('a worker that looks does not note its own death', async (t) => {
  const setting = await scene(t)
  const ghost = await register(setting)
  await setting.db.clock.advance('1 min')
  assert.deepEqual(await noteDeaths(new Lane(setting.db.pool), ghost), [])
})

test('a beat that commits meanwhile is not overtaken by a death, and a death not by a beat', async (t) => {
  const setting = await scene(t)
  const { db } = setting
  const lane = new Lane(db.pool)
  const ghost = await register(setting)
  const client = await db.connect()
  await db.clock.advance('1 min')
  await client.query('begin')
  await beat(new Lane(client), ghost, VITALS)
  assert.deepEqual(await noteDeaths(lane, SELF), [], 'its row is locked, and is not waited for')
  await client.query('commit')
  assert.deepEqual(await noteDeaths(lane, SELF), [])
  await db.clock.advance('1 min')
  await client.query('begin')
  assert.equal((await noteDeaths(new Lane(client), SELF)).length, 1)
  const beaten = beat(lane, ghost, VITALS)
  await client.query('commit')
  assert.equal(await beaten, undefined, 'it registers again')
  assert.equal(await registerWorker(lane, ghost, INFO), 'returned')
  assert.equal(await registerWorker(lane, ghost, INFO), 'known', 'a repeat after a lost reply')
  assert.deepEqual(await happened(setting, 'ghost'), ['joined', 'died', 'returned'])
  await client.end()
})

test('after the clock has jumped back by an hour a dead worker is noted within 15 s', async (t) => {
  const setting = await scene(t)
  const { db } = setting
  const lane = new Lane(db.pool)
  await db.clock.advance('1 hour')
  await register(setting)
  const other = await register(setting, 'other')
  await db.clock.advance('-1 hour')
  assert.deepEqual(await beat(lane, other, VITALS), { silence: true })
  assert.deepEqual(await noteDeaths(lane, other), [])
  await db.clock.advance('16 s')
  assert.equal((await noteDeaths(lane, other))[0]?.label, 'ghost')
})

test('a worker announces the death of another, and not before its own beats were steady for 15 s', async (t) => {
  const setting = await scene(t)
  const { db, worker, log } = setting
  const timers = standing(t)
  const ghost = await register(setting)
  await db.clock.advance('1 hour')
  const [names, inFlight] = [statements(t), unanswered(t)]
  // In small steps: its loop sets the next timer some turns after the answer.
  const passesUntil = (what: string, condition: () => boolean) =>
    until(what, () => {
      if (condition()) return true
      if (inFlight() === 0) timers.pass(100)
      return false
    })
  const hasBeaten = (times: number) =>
    passesUntil('its beat is answered', () => beats(names) === times && inFlight() === 0)
  const busy = worker([handle(task, () => {})], { label: 'watcher' })
  const died = collect(busy, 'worker_died')
  await until('it is registered', async () => (await stateOf(setting, 'watcher')) === 'active')
  await until('it has claimed', () => names.includes('job.claim') && inFlight() === 0)
  for (const beaten of [1, 2]) await hasBeaten(beaten)
  assert.ok(!names.includes('worker.note_deaths'))
  await passesUntil('it announces', () => died.length === 1)
  const [{ workerId, label, silentMs } = assert.fail()] = died
  assert.deepEqual([workerId, label, silentMs > 3_600_000], [ghost.id, 'ghost', true])
  assert.match(log.find(({ level }) => level === 'warn')!.message, /^worker ghost died: last seen 36\d\d s ago$/)
  assert.equal(await stateOf(setting, 'ghost'), 'dead')
  // A gap in its own beats: the database was away, or the process stood still.
  await register(setting, 'second')
  await db.clock.advance('1 hour')
  names.length = 0
  timers.pass(12_000)
  for (const beaten of [1, 2, 3]) {
    await hasBeaten(beaten)
    assert.ok(!names.includes('worker.note_deaths'))
  }
  await passesUntil('it announces again', () => died.length === 2)
  assert.equal(died[1]!.label, 'second')
})

test('a worker that was noted as dead is active again after its next beat', async (t) => {
  const setting = await scene(t)
  const { db, worker, log } = setting
  const timers = movableTimers(t)
  worker([handle(task, () => {})], { label: 'slow' })
  await until('it is registered', async () => (await stateOf(setting, 'slow')) === 'active')
  await db.clock.advance('1 min')
  const [dead] = await noteDeaths(new Lane(db.pool), SELF)
  assert.equal(dead?.label, 'slow')
  assert.equal(await stateOf(setting, 'slow'), 'dead')
  timers.pass(5_000)
  await until('it is active', async () => (await stateOf(setting, 'slow')) === 'active')
  assert.deepEqual(await happened(setting, 'slow'), ['joined', 'died', 'returned'])
  assert.ok(
    log.some(({ level, message }) => level === 'warn' && message.includes('slow was noted as dead and is back')),
  )
})

test('drain, runOnce and claims by hand come and go without a line in the log of the fleet', async (t) => {
  const setting = await scene(t)
  const { lh, db } = setting
  await lh.drain([handle(task, () => {})], { label: 'a' })
  await lh.runOnce([handle(task, () => {})], { label: 'b' })
  await lh.claim(task)
  assert.deepEqual(await lh.fleetEvents(), [])
  const byHand = async () =>
    [...(await lh.workers()), ...(await lh.workers({ state: 'stopped' }))].find(({ mode }) => mode === 'by_hand')
  assert.equal((await byHand())?.state, 'active')
  await db.clock.advance('59 min')
  assert.equal((await byHand())?.state, 'active', 'it does not beat, so its silence means nothing')
  assert.deepEqual(await noteDeaths(new Lane(db.pool), SELF), [])
  await db.clock.advance('2 min')
  assert.deepEqual([(await byHand())?.state, (await byHand())?.stoppedAt], ['stopped', null])
  await lh.drain([handle(task, () => {})], { label: 'c' }) // Prunes.
  assert.ok((await byHand())?.stoppedAt instanceof Date)
  assert.deepEqual((await lh.workers({ state: 'stopped' })).map(({ label }) => label).includes('c'), true)
})

test('a process that is killed is noted as dead, with the jobs that it held', async (t) => {
  const setting = await scene(t)
  const { lh, db, worker } = setting
  const victim = await startWorker(t, db.url, { options: { lease: '1h', label: 'victim' } })
  await until('it is registered', async () => (await stateOf(setting, 'victim')) === 'active')
  const timers = movableTimers(t)
  const busy = worker([handle(kind('other'), () => {})], { label: 'watcher' })
  const died = next(busy, 'worker_died')
  await until('it watches', async () => (await stateOf(setting, 'watcher')) === 'active')
  victim.kill('SIGKILL')
  await victim.ends()
  await db.clock.advance('16 s')
  assert.equal(await stateOf(setting, 'victim'), 'dead')
  let isOver = false
  void died.then(() => {
    isOver = true
  })
  await until('it is announced', () => {
    if (!isOver) timers.pass(5_000)
    return isOver
  })
  assert.equal((await inTime(died, 'no death')).label, 'victim')
  assert.deepEqual(await happened(setting, 'victim'), ['joined', 'died'])
  assert.equal((await lh.workers({ state: 'dead' }))[0]!.label, 'victim')
})

test('events of the fleet are pruned with workers', async (t) => {
  const setting = await scene(t, { retention: { workers: '2h' } })
  const { lh, db } = setting
  await lh.configure([])
  await register(setting)
  await db.clock.advance('1 hour')
  await register(setting, 'later')
  await db.clock.advance('61 min')
  await lh.drain([handle(task, () => {})])
  assert.deepEqual(
    (await lh.fleetEvents()).map(({ label, what }) => `${label} ${what}`),
    ['later joined'],
  )
})

test('what workers() and fleetEvents() cannot use is refused', async (t) => {
  const { lh } = await scene(t)
  const wrong = (call: Promise<unknown>, option: string) => assert.rejects(call, { code: 'INVALID_OPTION', option })
  await wrong(lh.workers({ state: 'alive' as 'active' }), 'workers.state')
  await wrong(lh.workers({ limit: 0 }), 'workers.limit')
  await wrong(lh.workers({ label: 'x' } as object), 'workers.label')
  await wrong(lh.fleetEvents({ workerId: 'x' }), 'fleetEvents.workerId')
  await wrong(lh.fleetEvents({ limit: 1.5 }), 'fleetEvents.limit')
})
