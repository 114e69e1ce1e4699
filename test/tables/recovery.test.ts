// Recovery: reclaims stuck rows, retries failed rows, and re-publishes rows whose message was lost.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { type Chore, handle, kind } from '../../src/index.ts'
import { type RecoveryOptions, statusTable } from '../../src/tables/index.ts'
import type { RowClaim } from '../../src/tables/outcomes.ts'
import { freshDatabase, type TestDatabase } from '../support/database.ts'
import { gate } from '../support/gate.ts'
import { until } from '../support/until.ts'
import { collect, count, scene } from '../support/worker.ts'
import { createSummaries, letClaimsAge, summaries, summary } from './summaries.ts'

async function withRows(t: TestContext, n: number): Promise<TestDatabase> {
  const db = await freshDatabase(t)
  await createSummaries(db, n)
  return db
}

async function claim(db: TestDatabase, ...ids: number[]): Promise<RowClaim[]> {
  const answers = await Promise.all(ids.map((id) => summaries.claim(db.pool, id)))
  return answers.map((answer) => (answer as { claim: RowClaim }).claim)
}

/** As if the backoff were over. */
const letFailuresAge = ({ pool }: TestDatabase) =>
  pool.query(`update summary set retry_at = statement_timestamp() where retry_at is not null`)

const NOTHING = { reclaimed: 0, givenUp: 0, redriven: 0, resent: 0 }

test('a row whose claim expired is reclaimed, counted and published', async (t) => {
  const db = await withRows(t, 3)
  await claim(db, 1)
  await letClaimsAge(db)
  await claim(db, 2)
  const told: string[] = []
  const recovery = summaries.recovery({ publish: async (ids) => told.push(...ids) })
  assert.deepEqual(await recovery.run(db.pool), { ...NOTHING, reclaimed: 1 })
  assert.deepEqual(await recovery.run(db.pool), NOTHING)
  assert.deepEqual(told, ['1'])
  const row = await summary(db, 1)
  assert.deepEqual([row.status, row.claim_token, row.claim_expires_at, row.attempt_count], ['pending', null, null, 1])
  assert.match(row.last_error!, /stopped renewing/)
  assert.deepEqual([(await summary(db, 2)).status, (await summary(db, 3)).status], ['processing', 'pending'])
})

test('a row that kills its workers is given up after its attempts', async (t) => {
  const db = await withRows(t, 1)
  const recovery = summaries.recovery()
  for (let attempt = 1; attempt <= 5; attempt++) {
    await claim(db, 1)
    await letClaimsAge(db)
    const did = await recovery.run(db.pool)
    assert.deepEqual(did, { ...NOTHING, ...(attempt < 5 ? { reclaimed: 1 } : { givenUp: 1 }) })
  }
  const row = await summary(db, 1)
  assert.deepEqual([row.status, row.attempt_count, row.retry_at], ['error', 5, null])
  await letFailuresAge(db)
  assert.deepEqual(await recovery.run(db.pool), NOTHING)
})

test('a failed row is retried after its backoff, until its attempts are used up', async (t) => {
  const db = await withRows(t, 1)
  const recovery = summaries.recovery()
  const waits: number[] = []
  for (let attempt = 1; attempt < 5; attempt++) {
    const { rows } = await db.pool.query('select statement_timestamp() as now')
    await summaries.fail(db.pool, (await claim(db, 1))[0]!, new Error('on purpose'))
    waits.push(((await summary(db, 1)).retry_at!.getTime() - rows[0].now.getTime()) / 1_000)
    assert.deepEqual(await recovery.run(db.pool), NOTHING, 'not before its time')
    await letFailuresAge(db)
    assert.deepEqual(await recovery.run(db.pool), { ...NOTHING, redriven: 1 })
    assert.equal((await summary(db, 1)).status, 'pending')
  }
  // 30 s, doubled each time, up to a quarter less; the clock goes on between the two readings.
  for (const [index, wait] of waits.entries()) {
    const full = 30 * 2 ** index
    assert.ok(wait > full * 0.75 && wait < full + 25, `${wait} s after failure ${index + 1}`)
  }
  assert.deepEqual(await summaries.fail(db.pool, 1, new Error('the last')), { outcome: 'applied', givenUp: true })
  const row = await summary(db, 1)
  assert.deepEqual([row.status, row.attempt_count, row.retry_at, row.last_error], ['error', 5, null, 'Error: the last'])
  assert.deepEqual(await recovery.run(db.pool), NOTHING)
})

test('the backoff of a row that has failed very often is the longest, and no number overflows', async (t) => {
  const db = await withRows(t, 1)
  const patient = statusTable('summary', { maxAttempts: 32_767, backoff: { first: '1s', max: '2h' } })
  await db.pool.query('update summary set attempt_count = 32000')
  await patient.fail(db.pool, 1, new Error('again'))
  const { rows } = await db.pool.query(`select retry_at - now() between '89 min' and '2 h' as fits from summary`)
  assert.equal(rows[0].fits, true)
})

test('ten at once take each row once', async (t) => {
  const db = await withRows(t, 300)
  const ids = Array.from({ length: 300 }, (_, index) => index + 1)
  await Promise.all(ids.slice(0, 100).map((id) => claim(db, id)))
  await letClaimsAge(db)
  await Promise.all(ids.slice(100, 200).map((id) => summaries.fail(db.pool, id, new Error('on purpose'))))
  await letFailuresAge(db)
  await db.pool.query(`update summary set sent_at = sent_at - interval '1 h' where id > 200`)
  const told: string[] = []
  const recovery = summaries.recovery({
    resendAfter: '10m',
    batch: 7,
    publish: async (some) => told.push(...some),
  })
  const dids = await Promise.all(Array.from({ length: 10 }, () => recovery.run(db.pool)))
  // A batch that was short because others held the rows is not the end: the remaining ones take the rest.
  dids.push(await recovery.run(db.pool))
  const total = (what: string) => dids.reduce((sum, did) => sum + did[what]!, 0)
  assert.deepEqual(['reclaimed', 'givenUp', 'redriven', 'resent'].map(total), [100, 0, 100, 100])
  assert.deepEqual(
    told.map(Number).sort((a, b) => a - b),
    ids,
  )
  assert.equal(await count(db, `from summary where status = 'pending'`), 300)
})

test('jobs enqueued in the transaction exist exactly when the rows are ready again', async (t) => {
  const { db, lh } = await scene(t)
  await createSummaries(db, 2)
  const summarise = kind<{ id: string }>('summarise')
  await claim(db, 1, 2)
  await letClaimsAge(db)
  const enqueue: NonNullable<RecoveryOptions['enqueue']> = async (ids, tx) => {
    await lh.enqueueMany(
      summarise,
      ids.map((id) => ({ input: { id } })),
      { tx },
    )
  }
  const failing = summaries.recovery({
    enqueue: async (ids, tx) => {
      await enqueue(ids, tx)
      throw new Error('on purpose')
    },
  })
  await assert.rejects(failing.run(db.pool), /on purpose/)
  assert.equal((await summary(db, 1)).status, 'processing')
  assert.equal(await count(db, 'from leasehold.jobs'), 0)
  assert.deepEqual(await summaries.recovery({ enqueue }).run(db.pool), { ...NOTHING, reclaimed: 2 })
  const { rows } = await db.pool.query(`select payload ->> 'id' as id from leasehold.jobs order by 1`)
  assert.deepEqual(rows, [{ id: '1' }, { id: '2' }])
})

test('a row that cannot be enqueued does not block the others; if none can be, nothing is counted', async (t) => {
  const db = await withRows(t, 3)
  await claim(db, 1, 2, 3)
  await letClaimsAge(db)
  const enqueued: string[] = []
  const recovery = (poison: readonly string[]) =>
    summaries.recovery({
      enqueue: async (ids, tx) => {
        if (ids.some((id) => poison.includes(id))) await tx.query('select 1 / 0')
        enqueued.push(...ids)
      },
    })
  await assert.rejects(recovery(['1', '2', '3']).run(db.pool), { code: '22012' })
  assert.deepEqual([(await summary(db, 2)).status, enqueued], ['processing', []])
  assert.deepEqual(await recovery(['2']).run(db.pool), { ...NOTHING, reclaimed: 3 })
  assert.deepEqual(enqueued.sort(), ['1', '3'])
  const row = await summary(db, 2)
  assert.deepEqual([row.status, row.attempt_count], ['error', 2])
  assert.match(row.last_error!, /division by zero/)
})

test('a row that another session is changing is left for the next run, without waiting', async (t) => {
  const db = await withRows(t, 8)
  await claim(db, 1, 2)
  await letClaimsAge(db)
  await summaries.fail(db.pool, 3, new Error('on purpose'))
  await summaries.fail(db.pool, 4, new Error('on purpose'))
  await letFailuresAge(db)
  await db.pool.query(`update summary set sent_at = sent_at - interval '1 h' where id in (5, 6)`)
  await claim(db, 7, 8)
  await db.pool.query(`update summary set attempt_count = 4, claim_expires_at = now() - interval '1 s' where id > 6`)
  const somebody = await db.connect()
  await somebody.query('begin')
  await somebody.query('select from summary where id in (1, 3, 5, 7) for update')
  const recovery = summaries.recovery({ resendAfter: '30m' })
  const one = { reclaimed: 1, givenUp: 1, redriven: 1, resent: 1 }
  assert.deepEqual(await recovery.run(db.pool), one)
  await somebody.query('commit')
  assert.deepEqual(await recovery.run(db.pool), one)
  assert.deepEqual(await recovery.run(db.pool), NOTHING, 'what was just told of is not told of again')
})

test('with publish, a row whose message was lost is re-published by default', async (t) => {
  const db = await withRows(t, 1)
  await db.pool.query(`update summary set sent_at = now() - interval '16 min'`)
  assert.deepEqual(await summaries.recovery().run(db.pool), NOTHING)
  const told: string[] = []
  const did = await summaries.recovery({ publish: async (ids) => told.push(...ids) }).run(db.pool)
  assert.deepEqual([did.resent, told], [1, ['1']])
})

test('a row whose message was not sent is re-published', async (t) => {
  const db = await withRows(t, 1)
  const told: string[] = []
  let fails = true
  const recovery = summaries.recovery({
    resendAfter: '10m',
    publish: async (ids) => {
      if (fails) throw new Error('no network')
      told.push(...ids)
    },
  })
  // Committed a while ago by a producer that died before it published.
  await db.pool.query(`update summary set sent_at = now() - interval '11 min'`)
  await assert.rejects(recovery.run(db.pool), /no network/)
  fails = false
  assert.deepEqual(await recovery.run(db.pool), NOTHING, 'not before its time')
  await db.pool.query(`update summary set sent_at = now() - interval '11 min'`)
  assert.deepEqual(await recovery.run(db.pool), { ...NOTHING, resent: 1 })
  assert.deepEqual(told, ['1'])
})

test('of three workers one runs the recovery in each interval, and reports its counts', async (t) => {
  const setting = await scene(t)
  const { db } = setting
  await createSummaries(db, 1)
  await claim(db, 1)
  await letClaimsAge(db)
  // A worker that takes a duty moves it on: by an interval, from a moment at which it was due.
  await db.pool.query(`
    create table taken (early boolean);
    create function note() returns trigger language plpgsql as
      $$ begin insert into taken values (new.next_at - interval '200 ms' < old.next_at); return null; end $$;
    create trigger note after update on leasehold.duty for each row
      when (new.name = 'chore: recovery of summary') execute function note()`)
  const recovery = summaries.recovery({ every: '200ms' })
  const idle = [handle(kind('idle'), () => {})]
  const workers = [1, 2, 3].map(() => setting.worker(idle, { chores: [recovery] }))
  const events = workers.map((worker) => collect(worker, 'chore'))
  await until('it was done ten times', () => events.flat().length >= 10)
  await Promise.all(workers.map((worker) => worker.stop()))
  const { rows } = await db.pool.query(
    'select count(*)::int as all, count(*) filter (where early)::int as early from taken',
  )
  assert.deepEqual(rows[0], { all: events.flat().length, early: 0 })
  const did = events.flat().filter((event) => event!.counts.reclaimed === 1)
  assert.deepEqual(did, [{ name: 'recovery of summary', counts: { ...NOTHING, reclaimed: 1 } }])
})

test('a chore that fails is reported, and one that never ends holds up neither the sweep nor the end', async (t) => {
  const setting = await scene(t)
  const { opened } = gate()
  let begun = 0
  const chores: Chore[] = [
    { name: 'fails', every: '100ms', run: async () => Promise.reject(new Error('on purpose')) },
    {
      name: 'hangs',
      every: '100ms',
      run: () => {
        begun++
        return opened as Promise<never>
      },
    },
  ]
  const worker = setting.worker([handle(kind('idle'), () => {})], { chores, sweep: '100ms' })
  const problems = collect(worker, 'problem')
  await until('the one was tried again and again', () => problems.filter((one) => one!.doing === 'fails').length > 5)
  assert.match(String(problems[0]!.error), /on purpose/)
  assert.equal(begun, 1)
  const sweeps = async () =>
    (await setting.db.pool.query(`select next_at from leasehold.duty where name = 'sweep'`)).rows[0].next_at
  const before = await sweeps()
  await until('it sweeps', async () => (await sweeps()) > before)
  await worker.stop()
  for (const wrong of [[{}], [{ name: 'a', every: '1s' }], [chores[0], chores[0]], 'x', [{ ...chores[0], every: 5 }]]) {
    assert.throws(() => setting.lh.worker([], { chores: wrong as never }), { code: 'INVALID_OPTION' })
  }
})
