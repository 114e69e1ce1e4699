// The whole life of jobs through PgBouncer in transaction mode, with three server connections.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import pg from 'pg'
import { handle, kind, withTransaction } from '../../src/index.ts'
import { startPgBouncer } from '../../tools/pgbouncer.ts'
import { needsPgBouncer } from '../support/optional-program.ts'
import { jobRow } from '../support/queue.ts'
import { until } from '../support/until.ts'
import { collect, count, isClaim, next, nothingHeld, scene, statements, untilStatus } from '../support/worker.ts'

const withPgBouncer = await needsPgBouncer()

async function behindPooler(t: TestContext) {
  const setting = await scene(t)
  const bouncer = await startPgBouncer({ url: setting.db.url, poolSize: 3 })
  setting.undo.after(() => bouncer.stop())
  const pooled = setting.leasehold({ connectionString: bouncer.url, prepare: false })
  return { ...setting, bouncer, pooled }
}

const sum = kind<number[]>('sum')
const flaky = kind<number>('flaky', { backoff: { first: 0 }, maxAttempts: 3 })
const shout = kind<string>('shout', { queue: 'sum' })

test(
  'through a transaction pooler jobs are enqueued, run, retried and buried; the worker logs that it polls',
  withPgBouncer,
  async (t) => {
    const { pooled, db, worker, bouncer, undo, log } = await behindPooler(t)
    const pool = new pg.Pool({ connectionString: bouncer.url })
    undo.after(() => pool.end())
    const busy = worker(
      [
        handle(sum, ({ input }) => input.reduce((a, b) => a + b, 0)),
        handle(shout, ({ input }) => input.toUpperCase()),
        handle(flaky, ({ input, attempt }) => {
          if (attempt <= input) throw new Error('not yet')
        }),
      ],
      { poll: 50, concurrency: 5 },
      pooled,
    )
    const wakeups = collect(busy, 'wakeup')
    const polls = next(busy, 'wakeup')
    const rolledBack = withTransaction(pool, async (tx) => {
      await pooled.enqueue(sum, [9], { tx })
      throw new Error('changed my mind')
    })
    await assert.rejects(rolledBack, /changed my mind/)
    const [added, shouted] = await withTransaction(pool, async (tx) => [
      await pooled.enqueue(sum, [1, 2], { tx, idempotencyKey: 'k' }),
      await pooled.enqueue(shout, 'a', { tx }),
    ])
    assert.equal((await pooled.enqueue(sum, [1, 2], { idempotencyKey: 'k' })).outcome, 'existing')
    await pooled.enqueueMany(flaky, [{ input: 0 }, { input: 2 }, { input: 3 }])
    assert.deepEqual((await pooled.waitFor(added!.jobId)).result, 3)
    assert.deepEqual((await pooled.waitFor(shouted!.jobId)).result, 'A')
    await pooled.enqueueMany(
      sum,
      Array.from({ length: 500 }, (_, n) => ({ input: [n] })),
    )
    await until('all have ended', () => busy.tally.completed === 504 && busy.tally.deadLetters === 1)
    assert.deepEqual([busy.tally.retrying, busy.tally.refused], [4, 0])
    assert.equal((await polls).by, 'poll')
    assert.deepEqual(wakeups, [{ by: 'poll' }])
    await busy.stop()
    await nothingHeld(db)
    assert.deepEqual(
      log.filter(({ level, message }) => level !== 'info' && !/^job \d+ /.test(message)),
      [],
    )
  },
)

const untilAborted = (signal: AbortSignal) =>
  new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))

test('through a transaction pooler a cancelled handler is aborted after polling', withPgBouncer, async (t) => {
  const { pooled, worker, db } = await behindPooler(t)
  const busy = worker([handle(sum, ({ signal }) => untilAborted(signal))], { poll: 50 }, pooled)
  const [started, aborted, cancelled] = [next(busy, 'started'), next(busy, 'aborted'), next(busy, 'cancelled')]
  const { jobId } = await pooled.enqueue(sum, [])
  await started
  assert.equal(await pooled.cancel(jobId), 'requested')
  assert.equal((await aborted).reason, 'cancelled')
  await cancelled
  assert.equal((await jobRow(db, jobId)).status, 'cancelled')
})

test(
  'through a transaction pooler a pause holds from the next claim on, and a resume from the next poll',
  withPgBouncer,
  async (t) => {
    const { pooled, worker, db } = await behindPooler(t)
    const names = statements(t)
    const busy = worker([handle(sum, () => {}), handle(shout, () => {})], { poll: 20 }, pooled)
    assert.equal(await pooled.pause({ kind: sum }, { by: 'ada' }), 'paused')
    const claimsAgain = () => {
      const before = names.length
      return until('it has claimed again', () => names.slice(before).filter(isClaim).length > 1)
    }
    await claimsAgain()
    const paused = await pooled.enqueue(sum, [1])
    await untilStatus(db, (await pooled.enqueue(shout, 'a')).jobId, 'completed')
    await claimsAgain()
    const { label, lease_generation } = await jobRow(db, paused.jobId)
    assert.deepEqual([label, lease_generation], ['paused', '0'])
    assert.equal(await pooled.resume({ kind: sum }), 'resumed')
    await untilStatus(db, paused.jobId, 'completed')
    await busy.stop()
  },
)

test(
  'through a transaction pooler a stopped worker releases its jobs without any notification',
  withPgBouncer,
  async (t) => {
    const { pooled, worker, db } = await behindPooler(t)
    const names = statements(t)
    const busy = worker([handle(sum, ({ signal }) => untilAborted(signal))], { concurrency: 2 }, pooled)
    const [started, wakeups] = [next(busy, 'started'), collect(busy, 'wakeup')]
    await pooled.enqueueMany(sum, [{ input: [1] }, { input: [2] }, { input: [3] }])
    await started
    await until('the listener is tested', () => names.includes('wake.notify'))
    await busy.stop({ grace: '10ms' })
    await nothingHeld(db)
    assert.equal(await count(db, 'from leasehold.job where attempts = 0'), 3)
    assert.deepEqual(
      wakeups.filter((event) => event?.by === 'listen'),
      [],
    )
    assert.equal((await pooled.drain([handle(sum, () => {})])).completed, 3)
  },
)

test('through a transaction pooler duties are taken, and jobs of dead workers reclaimed', withPgBouncer, async (t) => {
  const { pooled, lh, worker, db } = await behindPooler(t)
  const { jobId } = await lh.enqueue(sum, [1])
  assert.equal((await lh.claim(sum)).length, 1)
  await db.clock.advance('1 hour')
  const busy = worker([handle(sum, () => 'recovered')], { sweep: 100, poll: 50 }, pooled)
  assert.deepEqual(await next(busy, 'recovered'), { jobs: 1, deadLetters: 0 })
  await untilStatus(db, jobId, 'completed')
  await until(
    'every duty was taken',
    async () =>
      (await count(db, "from leasehold.duty where next_at = 'epoch' and name not in ('signals', 'versions')")) === 0,
  )
})

test('with a listen address that bypasses the pooler, a worker is notified at once', withPgBouncer, async (t) => {
  const { pooled, worker, bouncer, db, leasehold } = await behindPooler(t)
  const reported = leasehold({ connectionString: bouncer.url, prepare: false, listen: db.url })
  const busy = worker([handle(sum, () => {})], { poll: '1m' }, reported)
  assert.deepEqual(await next(busy, 'wakeup'), { by: 'listen' })
  const names = statements(t)
  const completed = next(busy, 'completed')
  const { jobId } = await pooled.enqueue(sum, [1])
  assert.equal((await completed).jobId, jobId)
  assert.ok(names.includes('job.claim'))
})

test('without prepared statements nothing is left behind on a server connection', withPgBouncer, async (t) => {
  const { pooled, bouncer } = await behindPooler(t)
  await pooled.enqueueMany(sum, [{ input: [1] }])
  await pooled.drain([handle(sum, () => {})])
  const probe = new pg.Client(bouncer.url)
  await probe.connect()
  const { rows } = await probe.query('select name from pg_prepared_statements')
  await probe.end()
  assert.deepEqual(rows, [])
})
