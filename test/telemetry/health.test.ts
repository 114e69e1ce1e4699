// leasehold.health(): what /healthz and /readyz answer.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { connectionOf } from '../../src/db/connection.ts'
import { handle, kind, Leasehold } from '../../src/index.ts'
import { workerHealth } from '../../src/worker/health.ts'
import { movableTimers } from '../support/movable-clock.ts'
import { until } from '../support/until.ts'
import { codeOf, next, type Scene, scene } from '../support/worker.ts'

const task = kind<number>('task')

test('a process without workers is ready when its database answers and the schema fits', async (t) => {
  const { lh } = await scene(t)
  const expected = { live: true, ready: true, database: 'reachable', schema: 'fits', workers: [], problems: [] }
  assert.deepEqual(await lh.health(), expected)
})

test('a process that must have a worker is ready once that has beaten, and no longer when it drains', async (t) => {
  const { lh, worker } = await scene(t)
  assert.deepEqual((await lh.health({ workers: 1 })).problems, ['0 of 1 workers run'])
  let end = () => {}
  const busy = worker([handle(task, () => new Promise<void>((resolve) => (end = resolve)))], { label: 'w' })
  const started = next(busy, 'started')
  await lh.enqueue(task, 1)
  await started
  const { ready, workers } = await lh.health({ workers: 1 })
  assert.equal(ready, true)
  assert.equal(workers[0]!.state, 'running')
  assert.deepEqual([workers[0]!.held, workers[0]!.running], [1, 1])
  assert.ok(workers[0]!.beatAgeMs! >= 0 && workers[0]!.claimAgeMs! >= 0)
  const stopped = busy.stop()
  const draining = await lh.health()
  assert.deepEqual([draining.live, draining.ready, draining.problems], [true, false, ['worker w is draining']])
  end()
  await stopped
  assert.deepEqual((await lh.health()).workers, [])
})

test('a worker that cannot start is no running worker', async (t) => {
  const { lh, db } = await scene(t)
  await db.pool.query('delete from leasehold.migration')
  await assert.rejects(lh.worker([handle(task, () => {})], { signals: [] }).run(), { code: 'SCHEMA' })
  const { live, ready, schema, workers, problems } = await lh.health()
  assert.deepEqual([live, ready, schema, workers], [true, false, 'does_not_fit', []])
  assert.match(problems[0]!, /is at level 0, this code needs/)
})

test('a database that is away makes the process unready, not dead, and the answer names no host or user', async (t) => {
  const { leasehold } = await scene(t)
  const lh = leasehold({ connectionString: 'postgres://secret-user@127.0.0.1:1/secret' })
  const health = await lh.health()
  assert.deepEqual(health, {
    live: true,
    ready: false,
    database: 'unreachable',
    schema: 'unknown',
    workers: [],
    problems: ['the database did not answer: ECONNREFUSED'],
  })
})

test('a pool without a free connection is answered within the deadline', async (t) => {
  const { db, lh: _, leasehold, undo } = await scene(t)
  const { default: pg } = await import('pg')
  const pool = new pg.Pool({ connectionString: db.url, max: 1 })
  undo.after(() => pool.end())
  const held = await pool.connect()
  const health = await leasehold({ connectionString: undefined as never, pool } as never)
    .health({ deadline: 50 })
    .finally(() => held.release())
  assert.deepEqual(
    [health.live, health.ready, health.problems],
    [true, false, ['the database did not answer: DEADLINE']],
  )
})

test('a worker is stuck after 15 s without a beat, and only then', () => {
  const slots = { held: 0, running: 0, claimedAt: undefined }
  const of = (seenAt: number | undefined, drains = false) =>
    workerHealth('w', drains, slots, { seenAt, refusal: undefined }, 100_000)
  assert.equal(of(undefined).state, 'starting')
  assert.equal(of(85_000).state, 'running')
  assert.equal(of(84_999).state, 'stuck')
  assert.equal(of(84_999, true).state, 'draining')

  // Refused long ago, and not sent since.
  const refused = (at: number) =>
    workerHealth('w', false, slots, { seenAt: 50_000, refusal: { code: '53100', at } }, 100_000).refused
  assert.deepEqual([refused(85_000), refused(84_999)], ['53100', undefined])
})

test('a stuck worker makes the process dead while the database answers, and not while it is away', async (t) => {
  const { lh, worker, leasehold } = await scene(t)
  const busy = worker([handle(task, () => {})])
  await until('it runs', async () => (await lh.health()).workers[0]?.state === 'running')
  Object.defineProperty(busy, 'health', { value: { ...busy.health, state: 'stuck', label: 'w' } })
  const { live, problems } = await lh.health()
  assert.deepEqual([live, problems], [false, ['worker w is stuck']])
  const away = leasehold({ connectionString: 'postgres://127.0.0.1:1/x' })
  connectionOf('away', away).workers.add(busy)
  assert.deepEqual([(await away.health()).live, (await away.health()).ready], [true, false])
})

/** What health() answers once the worker could not beat for 15 s. */
async function whenStuck(
  t: TestContext,
  { lh, worker }: Scene,
  refused: string | undefined,
  stop: () => Promise<unknown>,
) {
  const clock = movableTimers(t)
  await next(worker([handle(task, () => {})], { label: 'w' }), 'wakeup')
  await until('it has beaten', async () => (await lh.health()).workers[0]?.state === 'running')
  await stop()
  return until('it is stuck', async () => {
    clock.pass(1_000)
    const health = await lh.health()
    const [stuck] = health.workers
    return stuck?.state === 'stuck' && stuck.refused === refused && health
  })
}

test('a worker whose beats a read-only database refuses is stuck, and the process is not ready, and still live', async (t) => {
  const made = await scene(t)
  const health = await whenStuck(t, made, '25006', async () => {
    const { rows } = await made.db.pool.query('select current_database() as name')
    await made.db.pool.query(`alter database ${rows[0].name} set default_transaction_read_only = on`)
    const others = 'datname = current_database() and pid <> pg_backend_pid()'
    await made.db.pool.query(`select pg_terminate_backend(pid) from pg_stat_activity where ${others}`)
  })
  const { live, ready, database, problems } = health
  assert.deepEqual([live, ready, database], [true, false, 'reachable'])
  assert.deepEqual(problems, ['worker w is stuck: the database refuses its beats (25006)'])
})

test('a worker whose beats hang while the database answers others makes the process dead', async (t) => {
  const made = await scene(t)
  const session = await made.db.connect()
  const { live, database, problems } = await whenStuck(t, made, undefined, async () => {
    await session.query('begin')
    await session.query('lock leasehold.worker')
  })
  await session.query('rollback')
  assert.deepEqual([live, database, problems], [false, 'reachable', ['worker w is stuck']])
})

test('options that do not exist are refused', async (t) => {
  const { lh } = await scene(t)
  assert.equal(await codeOf(() => lh.health({ deadlin: 1 } as never)), 'INVALID_OPTION')
  assert.equal(await codeOf(() => lh.health({ workers: -1 })), 'INVALID_OPTION')
  assert.ok(lh instanceof Leasehold)
})
