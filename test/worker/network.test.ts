// Connection failures: nothing acknowledged is lost, and no outcome is recorded twice.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { handle, type JobId, kind } from '../../src/index.ts'
import { behindProxy } from '../support/behind-proxy.ts'
import { gate } from '../support/gate.ts'
import { movableTimers, passUntil } from '../support/movable-clock.ts'
import { jobRow } from '../support/queue.ts'
import { until } from '../support/until.ts'
import { collect, count, inTime, next, nothingHeld, type Scene, statements, untilStatus } from '../support/worker.ts'

const task = kind<number>('task')
/** Of a lease, and a little more: then it is time to renew. */
const A_THIRD_MS = 10_100
const numbers = (length: number) => Array.from({ length }, (_, input) => ({ input }))

async function historyOf({ db }: Scene): Promise<string[]> {
  const { rows } = await db.pool.query('select outcome::text from leasehold.job_attempt order by ended_at')
  return rows.map(({ outcome }) => outcome)
}

test('a claim whose reply is lost is released: its jobs run, no attempt is spent and no crash counted', async (t) => {
  const setting = await behindProxy(t)
  const { lh, far, proxy, worker, db } = setting
  await lh.enqueueMany(task, numbers(5))
  const cut = proxy.cutReplies('leasehold/job.claim')
  const ran: unknown[] = []
  const busy = worker([handle(task, ({ attempt, generation }) => void ran.push([attempt, generation]))], {}, far)
  await inTime(cut, 'the claim was not sent')
  await until('all have run', () => busy.tally.completed === 5)
  assert.deepEqual(
    ran,
    numbers(5).map(() => [1, 2]),
  )
  assert.deepEqual(await historyOf(setting), [])
  await busy.stop()
  await nothingHeld(db)
})

test('a completion whose reply is lost was recorded once, and is reported as completed', async (t) => {
  const setting = await behindProxy(t)
  const { lh, far, proxy, worker, db } = setting
  const cut = proxy.cutReplies(/leasehold\/job\.(complete|turn)/)
  const jobs = await lh.enqueueMany(task, numbers(3))
  const busy = worker([handle(task, ({ input }) => ({ input }))], {}, far)
  const [refused, problem] = [collect(busy, 'refused'), next(busy, 'problem')]
  await inTime(cut, 'nothing was completed')
  assert.equal((await problem).doing, 'a connection was lost')
  await until('all are known', () => busy.tally.completed === 3)
  assert.deepEqual(refused, [])
  for (const [index, { jobId }] of jobs.entries()) {
    const { status, attempts, lease_generation, result } = await jobRow(db, jobId)
    assert.deepEqual([status, attempts, lease_generation, result], ['completed', 1, '1', { input: index }])
  }
})

test('a turn whose reply is lost was recorded once, and its claimed jobs are released and run', async (t) => {
  const setting = await behindProxy(t)
  const { lh, far, proxy, worker, db } = setting
  const cut = proxy.cutReplies('leasehold/job.turn')
  const jobs = await lh.enqueueMany(task, numbers(6))
  const busy = worker([handle(task, ({ input }) => ({ input }))], { concurrency: 1, prefetch: 0 }, far)
  const refused = collect(busy, 'refused')
  await inTime(cut, 'there was no turn')
  await until('all are known', () => busy.tally.completed === 6)
  assert.deepEqual(refused, [])
  for (const [index, { jobId }] of jobs.entries()) {
    const { status, attempts, result } = await jobRow(db, jobId)
    assert.deepEqual([status, attempts, result], ['completed', 1, { input: index }])
  }
  assert.deepEqual(await historyOf(setting), [], 'no attempt was spent, and no crash counted')
  await busy.stop()
  await nothingHeld(db)
})

test('a failure whose reply is lost spends one attempt, and is reported as such', async (t) => {
  const setting = await behindProxy(t)
  const { lh, far, proxy, worker, db } = setting
  const cut = proxy.cutReplies('leasehold/job.settle')
  const { jobId } = await lh.enqueue(task, 1)
  const failing = handle(task, () => {
    throw new Error('no')
  })
  const busy = worker([failing], {}, far)
  const [refused, retrying] = [collect(busy, 'refused'), next(busy, 'retrying')]
  await inTime(cut, 'nothing was settled')
  await retrying
  assert.deepEqual(refused, [])
  assert.equal((await jobRow(db, jobId)).attempts, 1)
  assert.deepEqual(await historyOf(setting), ['failed'])
})

test('a completion that is not kept and whose reply is lost is reported as unknown, never as failed', async (t) => {
  const { lh, far, proxy, worker, db } = await behindProxy(t)
  const fleeting = kind<number>('fleeting', { keep: false })
  const cut = proxy.cutReplies(/leasehold\/job\.(complete|turn)/)
  await lh.enqueue(fleeting, 1)
  const busy = worker([handle(fleeting, () => {})], {}, far)
  const unknown = next(busy, 'unknown')
  await inTime(cut, 'nothing was completed')
  assert.equal((await unknown).outcome, 'complete')
  assert.deepEqual([busy.tally.refused, busy.tally.retrying, busy.tally.deadLetters], [0, 0, 0])
  assert.equal(await count(db, 'from leasehold.jobs'), 0)
})

for (const lost of ['job.expire', 'dead_letter.buried']) {
  test(`a dead letter is reported once although the reply to ${lost} is lost`, async (t) => {
    const { lh, far, proxy, worker, db } = await behindProxy(t)
    const { jobId } = await lh.enqueue(task, 1, { expiresAt: new Date(Date.now() + 3_600_000), delay: '2h' })
    const names = statements(t)
    const busy = worker([handle(kind('nothing'), () => {})], { sweep: 100 }, far)
    const reported = collect(busy, 'dead_letter')
    const cut = proxy.cutReplies(`leasehold/${lost}`)
    await db.clock.advance('61 minutes')
    await inTime(cut, 'nothing was buried')
    await until('the event is emitted', () => reported.length > 0)
    assert.deepEqual([reported[0]!.jobId, reported[0]!.reason], [jobId, 'expired'])
    names.length = 0
    await until('it has looked again', () => names.filter((name) => name === 'dead_letter.buried_lately').length > 2)
    assert.equal(reported.length, 1)
  })
}

test('by hand, after a lost reply, the same outcome sent again is the same outcome', async (t) => {
  const { lh, far, proxy, db } = await behindProxy(t)
  const [completed, failed] = await lh.enqueueMany(task, numbers(2))
  const [first, second] = await far.claim(task, { limit: 2 })
  void proxy.cutReplies('leasehold/job.complete')
  await assert.rejects(first!.complete('done'))
  await first!.complete('done')
  void proxy.cutReplies('leasehold/job.settle')
  await assert.rejects(second!.fail('no'))
  assert.equal(await second!.fail('no'), 'pending')
  assert.deepEqual(
    [(await jobRow(db, completed!.jobId)).result, (await jobRow(db, failed!.jobId)).attempts],
    ['done', 1],
  )
  await assert.rejects(first!.fail('after all'), { code: 'LEASE_LOST' })
})

test('connections that are reset while handlers run cost nothing but new ones', async (t) => {
  const setting = await behindProxy(t)
  const { lh, far, proxy, worker, db } = setting
  const [go, started] = [gate(), gate()]
  let running = 0
  const waiting = handle(task, async () => {
    if (++running === 10) started.open()
    await go.opened
  })
  const busy = worker([waiting], { concurrency: 10 }, far)
  const [aborted, refused] = [collect(busy, 'aborted'), collect(busy, 'refused')]
  await next(busy, 'wakeup', ({ by }) => by === 'listen')
  const [fellBack, listens] = [
    next(busy, 'wakeup', ({ by }) => by === 'poll'),
    next(busy, 'wakeup', ({ by }) => by === 'listen'),
  ]
  await lh.enqueueMany(task, numbers(10))
  await started.opened
  proxy.cut()
  await fellBack
  go.open()
  await until('all are completed', () => busy.tally.completed === 10)
  assert.deepEqual([aborted, refused, await historyOf(setting)], [[], [], []])
  assert.equal(running, 10, 'a handler ran twice')
  await listens
  await busy.stop()
  await nothingHeld(db)
})

test('a frozen connection: handlers are aborted before their lease ends, and a stale outcome is refused', async (t) => {
  const clock = movableTimers(t)
  const setting = await behindProxy(t)
  const { lh, far, proxy, worker, db, log } = setting
  const [started, late] = [gate(), gate()]
  let isAborted = false
  const stubborn = handle(task, async ({ signal }) => {
    signal.addEventListener('abort', () => {
      isAborted = true
    })
    started.open()
    await late.opened
    return 'stale'
  })
  const busy = worker([stubborn], { label: 'frozen' }, far)
  const [aborted, refused] = [next(busy, 'aborted'), next(busy, 'refused')]
  const { jobId } = await lh.enqueue(task, 1)
  await started.opened
  await until('the connection that renews is open', async () => {
    const renewing = "from pg_stat_activity where query like '-- job.cancel_requests%' and datname = current_database()"
    return (await count(db, renewing)) > 0
  })
  proxy.freeze()
  const names = statements(t)
  const missedDeadline = () => log.some(({ error }) => (error as { code?: string })?.code === 'DEADLINE')
  let passed = 0
  const pass = (ms: number) => {
    clock.pass(ms)
    passed += ms
  }
  pass(A_THIRD_MS)
  // The one before it may have been in flight when the connection froze, and has to miss its deadline first.
  await until('it tries to renew', () => {
    pass(100)
    return names.includes('claim.renew') || missedDeadline()
  })
  assert.equal(isAborted, false)
  // Until just before the end of the lease in the database; nothing can have renewed it since.
  const left = 'select extract(epoch from expires_at - clock_timestamp()) * 1000 as ms from leasehold.claim'
  pass(Number((await db.pool.query(left)).rows[0].ms) - passed - 1)
  assert.equal(isAborted, true)
  assert.equal((await aborted).reason, 'lease_lost')
  await db.clock.advance('1 minute')

  const heir = worker([handle(task, () => 'fresh')], { sweep: 100, label: 'heir' })
  await untilStatus(db, jobId, 'completed')
  assert.equal(heir.tally.completed, 1)
  late.open()
  proxy.thaw()
  // What was sent into the frozen connection misses its deadline, and is sent again.
  await passUntil(clock, refused)
  assert.equal((await refused).generation, 1)
  const { result, lease_generation } = await jobRow(db, jobId)
  assert.deepEqual([result, lease_generation], ['fresh', '2'])
  assert.ok(missedDeadline(), 'no statement missed its deadline')

  await heir.stop()
  const more = await lh.enqueueMany(task, numbers(3))
  for (const { jobId } of more) await untilStatus(db, jobId, 'completed')
  assert.equal(busy.tally.completed, 3, 'the thawed worker goes on')
})

test('a worker that loses the database waits for it, and one that starts without it does too', async (t) => {
  const { lh, far, proxy, worker, db } = await behindProxy(t)
  proxy.refuse()
  const busy = worker([handle(task, () => {})], {}, far)
  assert.equal((await next(busy, 'problem')).doing, 'connecting')
  const first = (await lh.enqueue(task, 1)).jobId
  proxy.accept()
  await untilStatus(db, first, 'completed')
  const lost = next(busy, 'problem', ({ doing }) => doing === 'claiming')
  proxy.refuse()
  proxy.cut()
  await lost
  const second = (await lh.enqueue(task, 2)).jobId
  proxy.accept()
  await untilStatus(db, second, 'completed')
})

test('a worker stops without a reply from the database, and its jobs are reclaimed after their lease', async (t) => {
  const clock = movableTimers(t)
  const { lh, far, proxy, worker, db } = await behindProxy(t)
  const started = gate()
  const busy = worker(
    [
      handle(task, async ({ signal }) => {
        started.open()
        await new Promise((resolve) => signal.addEventListener('abort', resolve))
      }),
    ],
    { lease: '1m' },
    far,
  )
  const { jobId } = await lh.enqueue(task, 1)
  await started.opened
  proxy.freeze()
  await passUntil(clock, busy.stop({ grace: 0 }))
  assert.equal((await jobRow(db, jobId)).status, 'processing')
  proxy.thaw()
  await db.clock.advance('2 minutes')
  assert.equal((await lh.drain([handle(task, () => {})])).completed, 1)
})

/** Refuses outcomes, not claims, until the returned function is called. */
async function breakOutcomes({ db }: Scene): Promise<() => Promise<unknown>> {
  await db.pool.query('alter table leasehold.archive rename to archive_away')
  return () => db.pool.query('alter table leasehold.archive_away rename to archive')
}

test('no job is claimed or started while outcomes cannot be recorded, and those that waited start afterwards', async (t) => {
  const setting = await behindProxy(t)
  const { lh, worker, db } = setting
  const mend = await breakOutcomes(setting)
  const started: JobId[] = []
  const busy = worker([handle(task, () => {})], { concurrency: 5, poll: '1h' })
  busy.on('started', ({ jobId }) => started.push(jobId))
  const cannot = next(busy, 'problem', ({ doing }) => doing === 'recording outcomes')
  const first = (await lh.enqueue(task, 0)).jobId
  await cannot
  // A claim that was sent before may be in flight. From here on none is sent.
  await next(busy, 'problem', ({ doing }) => doing === 'recording outcomes')
  await until('no claim is under way', async () => {
    const active = `from pg_stat_activity where datname = current_database() and state = 'active'`
    return (await count(db, `${active} and query like '-- job.claim%'`)) === 0
  })
  const others = await lh.enqueueMany(task, numbers(3))
  await next(busy, 'problem', ({ doing }) => doing === 'recording outcomes')
  assert.deepEqual(started, [first])
  assert.equal(await count(db, 'from leasehold.job where claim_id is not null'), 1)
  // Another session holds the row of the first, so its outcome waits; the others do not.
  const somebody = await db.connect()
  await somebody.query('begin')
  await somebody.query('select from leasehold.job where id = $1 for update', [first])
  await mend()
  for (const { jobId } of others) await untilStatus(db, jobId, 'completed')
  await somebody.query('rollback')
  await untilStatus(db, first, 'completed')
  assert.deepEqual([started.length, busy.tally.released], [4, 0])
})
