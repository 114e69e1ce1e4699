// A worker, and an operator's script, under a role that has the rights of grantsSql() and owns nothing.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Lane } from '../../src/db/lane.ts'
import { Inbox } from '../../src/inbox/index.ts'
import { Fatal, handle, kind, withTransaction } from '../../src/index.ts'
import { clearBusy, markBusy } from '../../src/jobs/wake.ts'
import { withRoles } from '../support/roles.ts'
import { until } from '../support/until.ts'
import { codeOf, collect, count, next, untilStatus } from '../support/worker.ts'

const REFUSED = '42501'
const task = kind<number>('task')

test('a worker runs, retries, buries, sweeps and prunes as a role that owns nothing', async (t) => {
  const { db, as, worker } = await withRoles(t)
  const lh = as('worker')
  await lh.migrate()
  const flaky = kind<number>('flaky', { maxAttempts: 2, backoff: { first: 0 }, keep: '1h' })
  const hopeless = kind<number>('hopeless', { keepKey: '1h' })
  const chore = { name: 'tidy', every: 100, run: async () => ({ rows: 1 }) }
  const handlers = [
    handle(task, async (job) => {
      await job.progress({ half: true })
      await job.once('mail', () => 'sent')
      await lh.enqueue(flaky, 1)
    }),
    handle(flaky, ({ attempt }) => {
      if (attempt === 1) throw new Error('not yet')
    }),
    handle(hopeless, () => {
      throw new Fatal('never')
    }),
  ]
  const swept = await lh.enqueue(task, 1)
  assert.equal((await lh.claim(task)).length, 1)
  const busy = worker(handlers, { poll: 50, sweep: 100, lease: '30s', chores: [chore] }, lh)
  const problems = collect(busy, 'problem')
  const events = ['chore', 'retrying', 'recovered', 'completed', 'dead_letter', 'wakeup'] as const
  const reported = Promise.all(events.map((name) => next(busy, name)))
  const dead = await lh.enqueue(hopeless, 1, { idempotencyKey: 'k' })
  await db.clock.advance('31 s')
  await reported
  await untilStatus(db, swept.jobId, 'completed')
  await untilStatus(db, dead.jobId, 'dead_letter')
  await until('all is done', async () => (await count(db, 'from leasehold.job')) === 0)
  await new Inbox(lh, { source: 'sns', redeliveredFor: '1h', keep: '2h' }).once('m1', () => {})
  assert.ok((await count(db, 'from leasehold.effect')) > 0)

  // Beyond every partition that the owner has made: rows go to the default partitions and are pruned there.
  await db.clock.advance('60 days')
  const late = await lh.enqueue(flaky, 2)
  await untilStatus(db, late.jobId, 'completed')
  assert.equal(await count(db, 'from leasehold.archive_default'), 1)
  assert.equal(await count(db, 'from leasehold.job_attempt_default'), 1)
  await db.clock.advance('60 days')
  await db.clock.advance('60 days')
  const pruned = ['dead_letter', 'idempotency_key', 'effect', 'inbox', 'archive_default', 'job_attempt_default']
  for (const table of pruned) {
    await until(`${table} is pruned`, async () => (await count(db, `from leasehold.${table}`)) === 0)
  }
  await busy.stop()
  assert.deepEqual(problems, [])
})

test('an operator’s script uses the role of the workers, and configures nothing', async (t) => {
  const { db, as, client, owner } = await withRoles(t)
  const [lh, session] = [as('worker'), await client('worker')]
  const by = { by: 'ada' }
  const [pending, held, dead] = await lh.enqueueMany(task, [{ input: 1 }, { input: 2 }, { input: 3, priority: 0 }])
  const [job] = await lh.claim(task)
  assert.equal(job!.id, dead!.jobId)
  await assert.rejects(job!.once('pay', () => Promise.reject(new Error('unknown'))))
  await job!.bury(new Fatal('no'))
  assert.equal(await lh.settleEffect(dead!.jobId, 'pay', { happened: true }), 'settled')
  assert.deepEqual(await lh.redrive(dead!.jobId), [dead!.jobId])
  assert.equal(await lh.cancel(pending!.jobId), 'cancelled')
  for (const target of [{ kind: task }, { queue: 'task' }]) {
    assert.equal(await lh.pause(target, by), 'paused')
    assert.equal(await lh.resume(target, by), 'resumed')
    assert.equal(await lh.pause(target, by), 'paused', 'a row that is there')
    assert.equal(await lh.resume(target, by), 'resumed')
  }
  assert.equal(await count(db, 'from leasehold.operator_actions'), 11)
  const lane = new Lane(session)
  await markBusy(lane, ['task'], 1_000)
  await clearBusy(lane, ['task'])
  const [second] = await lh.claim(task, { limit: 1 })
  await withTransaction(session, async (tx) => {
    await second!.assertLease(tx)
    await second!.complete('done', { tx })
  })
  assert.ok([held!.jobId, dead!.jobId].includes(second!.id))

  for (const statement of [
    'truncate leasehold.job',
    'alter table leasehold.job add column x int',
    'drop table leasehold.archive_default',
    'delete from leasehold.archive',
    `insert into leasehold.migration values (99, 'x', 99)`,
    `update leasehold.settings set keep_attempts = '0'`,
    `update leasehold.queue set ordered = true`,
    `update leasehold.kind set max_attempts = 1`,
    'create table leasehold.mine ()',
  ]) {
    assert.equal(await codeOf(() => session.query(statement)), REFUSED, statement)
  }
  assert.equal(await codeOf(() => lh.configure([task])), REFUSED)
  await owner.configure([task])
  assert.ok((await owner.maintain()).made >= 0)
})
