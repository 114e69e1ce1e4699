// Housekeeping: each duty is done by one worker per interval, by the database's clock.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Lane } from '../../src/db/lane.ts'
import { handle, kind } from '../../src/index.ts'
import { dropPartitions, pruneKeys } from '../../src/jobs/housekeeping.ts'
import { DUTIES, takeDuties } from '../../src/runtime/duty.ts'
import { handleRuns, workflow } from '../../src/workflow/index.ts'
import { waitUntilBlocked } from '../support/database.ts'
import { jobRow, session } from '../support/queue.ts'
import { until } from '../support/until.ts'
import { collect, count, next, type Scene, scene, statements, untilStatus } from '../support/worker.ts'

const SWEEP_MS = 100
const EVERY_MS = {
  sweep: SWEEP_MS,
  suspects: 10_000,
  expire: 10_000,
  prune: 600_000,
  partitions: 3_600_000,
  order: 10_000,
  inbox: 600_000,
  signals: 1_000,
  versions: 60_000,
}
/** A statement that each duty sends at least once each time. */
const SENDS = {
  sweep: 'sweep.look',
  expire: 'job.expire',
  prune: 'dead_letter.prune',
  partitions: 'partition.make',
  order: 'order.check',
  inbox: 'inbox.prune',
  signals: 'wake.signalled',
  versions: 'worker.unhandled_kinds',
}

const task = kind<number>('task')
const idle = [handle(task, () => {}), handleRuns(workflow<null, void>('flow', { keep: '1d' }, async () => {}))]
const often = { sweep: SWEEP_MS, poll: 50 }

/** Notes each time a duty is taken, on the clock of the database. */
async function noteDuties({ db }: Scene): Promise<() => Promise<Record<string, number[]>>> {
  await db.clock.reset()
  await db.pool.query(
    `
    create table taken (name text, at timestamptz);
    create function note_duty() returns trigger language plpgsql as
      $$ begin insert into taken values (new.name, new.next_at - $1); return null; end $$;
    `.replace(
      '$1',
      "(case new.name when 'sweep' then interval '100 ms' when 'expire' then '10 s' when 'suspects' then '10 s' when 'order' then '10 s' when 'prune' then '10 min' when 'inbox' then '10 min' when 'signals' then '1 s' when 'versions' then '1 min' else '1 h' end)",
    ),
  )
  await db.pool.query('create trigger note after update on leasehold.duty for each row execute function note_duty()')
  return async () => {
    const { rows } = await db.pool.query('select name, extract(epoch from at) * 1000 as ms from taken order by at')
    return Object.fromEntries(
      DUTIES.map((duty) => [duty, rows.filter(({ name }) => name === duty).map(({ ms }) => Number(ms))]),
    )
  }
}

test('of three workers one takes each duty, once per interval', async (t) => {
  const setting = await scene(t)
  const taken = await noteDuties(setting)
  const names = statements(t)
  const workers = [1, 2, 3].map(() => setting.worker(idle, often))
  const ask = async (what: string, enough: (taken: Record<string, number[]>) => boolean) =>
    until(what, async () => enough(await taken()))
  await ask('every duty was taken', (by) => DUTIES.every((duty) => by[duty]!.length > 0))
  for (const [time, duty] of [
    ['11 s', 'expire'],
    ['11 min', 'prune'],
    ['61 min', 'partitions'],
  ] as const) {
    const before = (await taken())[duty]!.length
    await setting.db.clock.advance(time)
    await ask(`${duty} was taken again`, (by) => by[duty]!.length > before)
    const looks = names.length
    await until(
      'the others have looked, too',
      () => names.slice(looks).filter((name) => name === 'duty.take').length > 9,
    )
  }
  const done = (duty: string) => names.filter((name) => name === SENDS[duty as keyof typeof SENDS]).length
  // A sweep also looks for suspects, and a worker that starts for signals.
  const isDoneApart = (duty: string) => duty === 'suspects' || duty === 'signals'
  const isDone = ([duty, times]: [string, number[]]) => isDoneApart(duty) || done(duty) === times.length
  await ask('as many were done as were taken', (by) => Object.entries(by).every(isDone))
  for (const worker of workers) await worker.stop()
  for (const [duty, times] of Object.entries(await taken())) {
    const every = EVERY_MS[duty as keyof typeof EVERY_MS]
    for (const [index, at] of times.slice(1).entries()) {
      assert.ok(at - times[index]! >= every - 1, `${duty} was taken twice within ${at - times[index]!} ms`)
    }
    // One that was taken by a worker that then stopped is left to the next.
    if (!isDoneApart(duty)) assert.ok(done(duty) <= times.length, `${duty} was done more often than taken`)
  }
})

test('a duty whose holder died before doing it is done an interval later', async (t) => {
  const { lh, db, worker } = await scene(t)
  const { jobId } = await lh.enqueue(task, 1)
  await lh.claim(task)
  await db.clock.advance('1 hour')
  const { taken } = await takeDuties(new Lane(db.pool), { ...EVERY_MS, sweep: 60_000 })
  assert.ok(taken.includes('sweep'))
  const names = statements(t)
  const busy = worker(idle, { sweep: '1m', poll: 50 })
  const recovered = next(busy, 'recovered')
  await until('it has asked', () => names.includes('duty.take'))
  assert.equal((await jobRow(db, jobId)).status, 'processing', 'somebody else had it')
  await db.clock.advance('1 minute')
  assert.deepEqual(await recovered, { jobs: 1, deadLetters: 0 })
  await untilStatus(db, jobId, 'completed')
})

test('a clock that jumps back by a day stops no duty', async (t) => {
  const setting = await scene(t)
  const { db, worker } = setting
  await db.clock.advance('1 day')
  const taken = await noteDuties(setting)
  await db.clock.advance('1 day')
  worker(idle, often)
  await until('every duty was taken', async () => Object.values(await taken()).every((times) => times.length > 0))
  await db.pool.query('delete from taken')
  await db.clock.advance('-1 day')
  await until('every duty was taken again', async () => Object.values(await taken()).every((times) => times.length > 0))
})

test('jobs not started in time become dead letters, and dead letters are pruned after their retention', async (t) => {
  const { lh, db, worker } = await scene(t, { retention: { deadLetters: '3h' } })
  await lh.configure([])
  const later = kind<number>('later')
  const expiresAt = new Date(Date.now() + 3_600_000)
  const { jobId } = await lh.enqueue(later, 1, { delay: '2h', expiresAt })
  worker(idle, often)
  await db.clock.advance('61 min')
  await untilStatus(db, jobId, 'dead_letter')
  assert.equal((await jobRow(db, jobId)).reason, 'expired')
  await db.clock.advance('2 h')
  assert.equal((await lh.get(jobId))?.status, 'dead_letter')
  await db.clock.advance('2 h')
  await until('it is forgotten', async () => (await lh.get(jobId)) === undefined)
})

test('a running worker reclaims the jobs of dead workers', async (t) => {
  const { lh, db, worker } = await scene(t)
  const jobs = await lh.enqueueMany(
    task,
    [1, 2, 3].map((input) => ({ input })),
  )
  assert.equal((await lh.claim(task, { limit: 3 })).length, 3)
  const busy = worker(idle, often)
  const recovered = collect(busy, 'recovered')
  await db.clock.advance('31 s')
  for (const { jobId } of jobs) await untilStatus(db, jobId, 'completed')
  assert.deepEqual(recovered, [{ jobs: 3, deadLetters: 0 }])
})

test('partitions are made ahead, as far as the longest retention of a kind, and old ones dropped', async (t) => {
  const { lh, db, worker } = await scene(t)
  const long = kind<number>('long', { keep: '20d' })
  worker([...idle, handle(long, () => {})], often)
  const partitions = async (parent: string): Promise<string[]> => {
    const { rows } = await db.pool.query(
      `select right(c.relname, 8) as day from pg_inherits i join pg_class c on c.oid = i.inhrelid
        where i.inhparent = ('leasehold.' || $1)::regclass and c.relname ~ '\\d{8}$' order by 1`,
      [parent],
    )
    return rows.map(({ day }) => day)
  }
  const dayIn = async (days: number): Promise<string> => {
    const day = "select to_char((leasehold.clock() at time zone 'UTC') + $1 * interval '1 day', 'YYYYMMDD') as day"
    return (await db.pool.query(day, [days])).rows[0].day
  }
  await until('they reach 20 days ahead', async () => (await partitions('archive')).includes(await dayIn(20)))
  const { jobId } = await lh.enqueue(task, 1)
  await untilStatus(db, jobId, 'completed')
  const before = (await partitions('archive')).length
  await db.clock.advance('30 days')
  await until('some are dropped in the first turn', async () => (await partitions('archive'))[0]! > (await dayIn(-12)))
  await db.clock.advance('11 min')
  await until('the old ones are dropped', async () => (await partitions('archive'))[0]! >= (await dayIn(0)))
  await until('new ones are made', async () => (await partitions('archive')).includes(await dayIn(20)))
  await until('also for attempts', async () => (await partitions('job_attempt')).includes(await dayIn(7)))
  assert.equal((await partitions('archive')).length, before)
  assert.equal(await lh.get(jobId), undefined)
})

test('keys and attempts are pruned after their retention', async (t) => {
  const { lh, db, worker } = await scene(t, { retention: { attempts: '1d' } })
  await lh.configure([])
  const keyed = kind<number>('keyed', { keepKey: '3h', keep: false, maxAttempts: 2, backoff: { first: 0 } })
  const flaky = handle(keyed, ({ attempt }) => {
    if (attempt === 1) throw new Error('not yet')
  })
  const busy = worker([flaky], often)
  const completed = next(busy, 'completed')
  const first = await lh.enqueue(keyed, 1, { idempotencyKey: 'k' })
  await completed
  await db.clock.advance('2 h')
  assert.deepEqual(await lh.enqueue(keyed, 1, { idempotencyKey: 'k' }), { jobId: first.jobId, outcome: 'existing' })
  await db.clock.advance('2 h')
  await until('the key is forgotten', async () => (await count(db, 'from leasehold.idempotency_key')) === 0)
  assert.equal((await lh.enqueue(keyed, 1, { idempotencyKey: 'k' })).outcome, 'created')
  assert.equal(await count(db, 'from leasehold.job_attempt where job_id = $1', [first.jobId]), 1)
  await db.clock.advance('3 days')
  const attempts = 'from leasehold.job_attempt where job_id = $1'
  await until('its attempts are', async () => (await count(db, attempts, [first.jobId])) === 0)
})

test('one turn prunes every key past its retention, however many must stay', async (t) => {
  const { lh, db } = await scene(t)
  const add = (name: string, keepFor: string) =>
    db.pool.query(
      `insert into leasehold.idempotency_key (queue, key, job_id, keep_for, input_hash, due_at)
       select 'task', $1::text || n, nextval('leasehold.job_id'), $2::interval, '\\x00', leasehold.key_due_at($2::interval)
       from generate_series(1, 25000) n`,
      [name, keepFor],
    )
  for (const days of ['1 day', '30 days', '2 days']) await add(days, days)
  // The job of a key that must stay is somewhere: here, in the default partition.
  await db.pool.query(
    `insert into leasehold.archive (id, forget_at, finished_at, available_at, created_at, lease_generation, claim_id,
       claimed_at, status, attempts, max_attempts, priority, partition_bucket, queue, kind, payload, idempotency_key)
     select job_id, now() - interval '1 year', now(), now(), now(), 1, 1, now(), 'completed', 1, 5, 5, 0, queue, queue, '1', key
     from leasehold.idempotency_key where key like '30 days%'`,
  )
  await db.clock.advance('3 days')
  await lh.drain(idle) // Takes each duty once.
  assert.equal(await count(db, 'from leasehold.idempotency_key'), 25_000)
  assert.equal(await count(db, "from leasehold.idempotency_key where key like '30 days%'"), 25_000)
})

test('a day is kept when a transaction that still needs it commits while the day is being dropped', async (t) => {
  const { lh, db } = await scene(t)
  const { rows } = await db.pool.query("select min(relname) as first from pg_class where relname ~ '^archive_\\d{8}$'")
  const [, year, month, day] = /(....)(..)(..)$/.exec(rows[0].first)!
  await db.clock.set(`${year}-${month}-${day}T23:59:00Z`)
  const keyed = kind<number>('keyed', { keep: false, keepKey: '24h' })
  const first = await lh.enqueue(keyed, 1, { idempotencyKey: 'k' })
  const [job] = await lh.claim(keyed)
  const [tx, observer, dropper] = await Promise.all([db.connect(), db.connect(), session(db)])
  await tx.query('begin')
  await job!.complete(undefined, { tx })
  await db.clock.advance('2 min')
  await db.pool.query("alter function leasehold.drop_partitions(interval) set lock_timeout = '1 min'")
  const dropped = dropPartitions(dropper.lane, 365 * 86_400_000)
  await waitUntilBlocked(observer, dropper.pid)
  await tx.query('commit')
  assert.equal(await dropped, 0)
  await pruneKeys(new Lane(db.pool))
  assert.deepEqual(await lh.enqueue(keyed, 1, { idempotencyKey: 'k' }), { jobId: first.jobId, outcome: 'existing' })
})

test('a worker with short retentions never prunes jobs of other kinds early', async (t) => {
  const { lh, db, worker } = await scene(t)
  const [short, long] = [kind<number>('short', { keep: '1h' }), kind<number>('long', { keep: '30d' })]
  const kept = await lh.enqueueMany(long, [{ input: 1 }, { input: 2 }])
  const usual = await lh.enqueue(task, 1)
  await lh.drain([handle(long, () => {}), ...idle])
  worker([handle(short, () => {})], often)
  const gone = await lh.enqueue(short, 1)
  await untilStatus(db, gone.jobId, 'completed')
  const names = statements(t)
  const prunes = () => names.filter((name) => name === 'dead_letter.prune').length
  for (let day = 1; day <= 6; day++) {
    const before = prunes()
    await db.clock.advance('1 day')
    await until('the house was kept', () => prunes() > before)
  }
  await until('the short one is forgotten', async () => (await lh.get(gone.jobId)) === undefined)
  for (const { jobId } of [...kept, usual]) assert.equal((await lh.get(jobId))?.status, 'completed')
  await db.clock.advance('20 days')
  await until('the usual one is forgotten, after seven days', async () => (await lh.get(usual.jobId)) === undefined)
  for (const { jobId } of kept) assert.equal((await lh.get(jobId))?.status, 'completed')
})
