// The effect of an outage on running jobs, and which workers report a dead letter.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { handle, type Kind, kind } from '../../src/index.ts'
import { type Behind, behindProxy } from '../support/behind-proxy.ts'
import { gate } from '../support/gate.ts'
import { movableTimers } from '../support/movable-clock.ts'
import { jobRow } from '../support/queue.ts'
import { until } from '../support/until.ts'
import { collect, count, next, type Scene, scene, statements, untilStatus } from '../support/worker.ts'

const LEASE_MS = 30_000
const task = kind<number>('task')
const onlyOnce = kind<number>('task', { maxAttempts: 1 })
const other = [handle(kind<number>('other'), () => {})]

/** A worker runs a job and loses its network for longer than the lease: the handler is aborted, and stops or not. */
async function cutOff(
  setting: Behind,
  clock: { pass(ms: number): void },
  of: Kind<number>,
  sweep: number,
  heeds = true,
) {
  const { lh, far, proxy, worker, db } = setting
  const started = gate()
  const running = handle(of, async ({ signal, generation }) => {
    started.open()
    if (generation > 1) return 'done'
    await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()))
    if (heeds) throw signal.reason
    return 'too late'
  })
  const busy = worker([running], { label: 'cut off', sweep }, far)
  const aborted = next(busy, 'aborted')
  const { jobId } = await lh.enqueue(of, 1)
  await started.opened
  // An outage is noticed by the time since the last look: there must have been one.
  if (sweep < LEASE_MS)
    await until(
      'it has looked',
      async () => (await count(db, 'from leasehold.sweep where looked_at is not null')) === 1,
    )
  proxy.freeze()
  clock.pass(LEASE_MS)
  assert.equal((await aborted).reason, 'lease_lost')
  await db.clock.advance('31 s')
  return { busy, jobId }
}

async function historyOf({ db }: Scene): Promise<string[]> {
  const { rows } = await db.pool.query('select outcome::text from leasehold.job_attempt order by ended_at')
  return rows.map(({ outcome }) => outcome)
}

test('a worker that was cut off and returns before its job is claimed gets attempt and crash back', async (t) => {
  const clock = movableTimers(t)
  const setting = await behindProxy(t)
  const { proxy, worker, db } = setting
  const { busy, jobId } = await cutOff(setting, clock, task, 3_600_000)
  const [released, refused] = [next(busy, 'released'), collect(busy, 'refused')]
  const survivor = worker(other, { sweep: 100 })
  await next(survivor, 'recovered')
  const swept = await jobRow(db, jobId)
  assert.deepEqual([swept.status, swept.attempts, swept.crashes], ['pending', 1, 1])
  proxy.thaw()
  assert.equal((await released).jobId, jobId)
  await untilStatus(db, jobId, 'completed')
  assert.equal((await jobRow(db, jobId)).attempts, 1)
  assert.deepEqual(refused, [])
  assert.deepEqual([...new Set(await historyOf(setting))], ['released'])
})

test('a late completion is reported as refused, also when the job gets its attempt back', async (t) => {
  const clock = movableTimers(t)
  const setting = await behindProxy(t)
  const { proxy, worker, db } = setting
  const { busy, jobId } = await cutOff(setting, clock, task, 3_600_000, false)
  const refused = next(busy, 'refused')
  await next(worker(other, { sweep: 100 }), 'recovered')
  proxy.thaw()
  const { jobId: about, outcome } = await refused
  assert.deepEqual([about, outcome], [jobId, 'complete'])
  await untilStatus(db, jobId, 'completed')
  assert.equal((await jobRow(db, jobId)).result, 'done')
})

test('a job that the sweep buried stays buried: its worker and the sweeping one both report it', async (t) => {
  const clock = movableTimers(t)
  const setting = await behindProxy(t)
  const { proxy, worker, db, log } = setting
  const { busy, jobId } = await cutOff(setting, clock, onlyOnce, 3_600_000)
  const fromItsWorker = next(busy, 'dead_letter')
  const survivor = worker(other, { sweep: 100 })
  const letter = await next(survivor, 'dead_letter')
  assert.deepEqual(letter, {
    jobId,
    kind: 'task',
    queue: 'task',
    partitionKey: null,
    generation: 1,
    attempt: 1,
    reason: 'lease_expired',
    error: undefined,
  })
  const logged = log.filter(({ level, jobId: about }) => level === 'error' && about === jobId)
  assert.deepEqual(
    logged.map(({ message }) => message),
    [`job ${jobId} (task) is a dead letter: lease_expired; see its last_error`],
  )
  proxy.thaw()
  assert.equal((await fromItsWorker).reason, 'lease_expired')
  assert.equal((await jobRow(db, jobId)).status, 'dead_letter')
})

test('after an outage of the whole fleet jobs go on with no attempt and no crash counted', async (t) => {
  const clock = movableTimers(t)
  const setting = await behindProxy(t)
  const { proxy, worker, db } = setting
  const { busy, jobId } = await cutOff(setting, clock, onlyOnce, 100)
  // No worker could sweep meanwhile. The first that can is another worker, before the job's own is back.
  await db.pool.query("update leasehold.sweep set looked_at = looked_at - interval '31 s'")
  const names = statements(t)
  const first = worker(other, { sweep: 100 })
  const [released, recovered] = [next(busy, 'released'), collect(first, 'recovered')]
  await until('it sweeps', () => names.filter((name) => name === 'claim.sweep').length > 2)
  proxy.thaw()
  await released
  await untilStatus(db, jobId, 'completed')
  assert.deepEqual(recovered, [])
  assert.deepEqual((await jobRow(db, jobId)).attempts, 1)
  // Claimed again before outcomes could be recorded, it was released once more.
  assert.deepEqual([...new Set(await historyOf(setting))], ['released'])
})

test('a job that was not started in time is announced, with its last error', async (t) => {
  const { lh, worker, db, log } = await scene(t)
  const { jobId } = await lh.enqueue(task, 1, { expiresAt: new Date(Date.now() + 3_600_000), delay: '2h' })
  const sweeping = worker(other)
  const reported = next(sweeping, 'dead_letter')
  await db.clock.advance('61 minutes')
  const { reason, generation } = await reported
  assert.deepEqual([reason, generation], ['expired', 0])
  assert.equal(log.filter(({ jobId: about }) => about === jobId).length, 1)
})

test('the more suspects wait, the sooner the next worker is notified', async (t) => {
  const { lh, worker, db } = await scene(t)
  await lh.enqueueMany(
    task,
    Array.from({ length: 160 }, (_, input) => ({ input })),
  )
  await db.pool.query('update leasehold.job set crashes = 1')
  worker([handle(task, () => new Promise<void>(() => {}))], { sweep: '1h', grace: 0 })
  // Ten are needed to take all, so the next is asked after a tenth of the interval of 10 s.
  await until('another may take the duty within a second', async () => {
    const within = "next_at > 'epoch' and next_at <= leasehold.clock() + interval '1 s'"
    return (await count(db, `from leasehold.duty where name = 'suspects' and ${within}`)) === 1
  })
})
