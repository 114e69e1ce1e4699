// work() after an effect has happened, when the database fails around it.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { type TestContext, test } from 'node:test'
import { promisify } from 'node:util'
import pg from 'pg'
import type { Queryable } from '../../src/db/lane.ts'
import { Fatal } from '../../src/index.ts'
import { statusTable } from '../../src/tables/index.ts'
import { freshDatabase, type TestDatabase } from '../support/database.ts'
import { gate } from '../support/gate.ts'
import { until } from '../support/until.ts'
import { createSummaries, letClaimsAge, summaries, summary } from './summaries.ts'

async function withRows(t: TestContext, n: number): Promise<TestDatabase> {
  const db = await freshDatabase(t)
  await createSummaries(db, n)
  return db
}

/** A pool that treats statements of this name differently. */
function during(
  pool: pg.Pool,
  statement: string,
  instead: (send: () => Promise<unknown>) => Promise<unknown>,
): Queryable {
  const query = (config: pg.QueryArrayConfig) => {
    const send = () => pool.query(config)
    return config.text.startsWith(`-- ${statement}\n`) ? instead(send) : send()
  }
  return { query } as Queryable
}

test('a commit that is refused for a while is sent until it is accepted: the effect has happened', async (t) => {
  const db = await withRows(t, 1)
  const impatient = new pg.Pool({ connectionString: db.url, options: '-c lock_timeout=20ms' })
  impatient.on('error', () => {})
  t.after(() => impatient.end().catch(() => {}))
  const keeper = await db.connect()
  let effects = 0
  let refusals = 0
  const refused = during(impatient, 'row.commit', (send) =>
    send().catch(async (error) => {
      refusals++
      if (refusals === 2) await keeper.query('rollback')
      throw error
    }),
  )
  const worked = await summaries.work(refused, 1, async () => {
    effects++
    await keeper.query('begin')
    await keeper.query('select from summary for update')
    return { result: 'done' }
  })
  assert.deepEqual([worked.outcome, effects, refusals], ['applied', 1, 2])
  assert.equal((await summary(db, 1)).result, 'done')
})

test('a result that can never be stored is not retried: the row waits for a person', async (t) => {
  const db = await withRows(t, 6)
  await db.pool.query(`alter table summary add constraint short check (length(result) < 10 or id > 4);
    create index on summary (result);
    create function no() returns trigger language plpgsql as $$ begin raise exception 'no'; end $$;
    create trigger no before update on summary for each row when (new.result = 'forbidden') execute function no()`)
  // Nothing that could be compressed into a page.
  const random = Array.from({ length: 3_000 }, () => randomUUID()).join('')
  const bad: Record<number, never> = {
    1: { results: 'no such column' } as never,
    2: { result: 'a\0b' } as never,
    3: { result: 'longer than the constraint allows' } as never,
    5: { result: random } as never,
    6: { result: 'forbidden' } as never,
  }
  for (const [id, set] of Object.entries(bad)) {
    const worked = await summaries.work(db.pool, Number(id), async () => set)
    assert.equal(worked.outcome, 'failed')
    const row = await summary(db, Number(id))
    assert.deepEqual([row.status, row.attempt_count, row.retry_at], ['error', 1, null])
  }
  // Nothing to set is not a mistake.
  assert.deepEqual(await summaries.work(db.pool, 4, async () => null), { outcome: 'applied' })
})

test('an effect that throws Fatal is not retried, any other error is', async (t) => {
  const db = await withRows(t, 2)
  for (const [id, error, givenUp] of [
    [1, new Fatal('never'), true],
    [2, new Error('later'), false],
  ] as const) {
    const worked = await summaries.work(db.pool, id, () => Promise.reject(error))
    assert.deepEqual(worked, { outcome: 'failed', error, givenUp })
  }
  assert.equal((await summary(db, 1)).retry_at, null)
  assert.ok((await summary(db, 2)).retry_at! > new Date())
})

test('fail() returns givenUp: at the last attempt, on demand, and after a lost reply', async (t) => {
  const db = await withRows(t, 3)
  const patient = statusTable('summary', { maxAttempts: 2 })
  const fails = async (id: number, options: { retry?: boolean } = {}) => {
    await db.pool.query(`update summary set status = 'pending' where id = $1`, [id])
    const claimed = await patient.claim(db.pool, id)
    assert.ok(claimed.outcome === 'applied')
    const ask = () => patient.fail(db.pool, claimed.claim, new Error('no'), options)
    const [first, again] = [await ask(), await ask()]
    assert.deepEqual(first, again)
    return first
  }
  assert.deepEqual(await fails(1), { outcome: 'applied', givenUp: false })
  assert.deepEqual(await fails(1), { outcome: 'applied', givenUp: true })
  assert.deepEqual(await fails(2, { retry: false }), { outcome: 'applied', givenUp: true })
  const unclaimed = () => patient.fail(db.pool, 3, new Error('no'))
  assert.deepEqual(await unclaimed(), { outcome: 'applied', givenUp: false })
  await db.pool.query(`update summary set status = 'pending' where id = 3`)
  assert.deepEqual(await unclaimed(), { outcome: 'applied', givenUp: true })
  // Without a claim the failure cannot be attributed.
  assert.deepEqual(await unclaimed(), { outcome: 'already_handled', status: 'error' })
})

test('fail() may set a delay longer than the backoff, with a claim or without', async (t) => {
  const db = await withRows(t, 2)
  const claimed = await summaries.claim(db.pool, 1)
  assert.ok(claimed.outcome === 'applied')
  await summaries.fail(db.pool, claimed.claim, new Error('busy'), { after: '6h' })
  await summaries.fail(db.pool, 2, new Error('busy'), { after: '6h' })
  const { rows } = await db.pool.query(`select status, retry_at - sent_at >= interval '6 hours' as late,
    retry_at - sent_at < interval '9 hours' as soon from summary`)
  assert.deepEqual(rows, new Array(2).fill({ status: 'error', late: true, soon: true }))
})

test('a renewal without a reply neither hides the expiry nor delays the end', async (t) => {
  const db = await withRows(t, 1)
  const quick = statusTable('summary', { columns: ['result'], stuckAfter: '400ms' })
  const hangs = during(db.pool, 'row.renew', () => gate().opened)
  let reason: unknown
  const worked = await quick.work(hangs, 1, async ({ signal }) => {
    await until('it is told', () => signal.aborted)
    reason = signal.reason
    return { result: 'late, but nobody came in between' }
  })
  assert.match(String(reason), /could not be renewed in time/)
  assert.deepEqual(worked, { outcome: 'applied' })
})

test('an effect that exceeds its timeout is aborted, and its row reclaimed', async (t) => {
  const db = await withRows(t, 1)
  const limited = statusTable('summary', { columns: ['result'], stuckAfter: '15m', timeout: '50ms' })
  const { opened, open } = gate()
  let reason: unknown
  const working = limited.work(db.pool, 1, async ({ signal }) => {
    await until('it is told', () => signal.aborted)
    reason = signal.reason
    await opened
    return { result: 'too late' }
  })
  await until('it is told', () => reason !== undefined)
  assert.equal((reason as { code?: unknown }).code, 'TIMED_OUT')
  await letClaimsAge(db)
  assert.equal((await limited.recovery().run(db.pool)).reclaimed, 1)
  open()
  assert.deepEqual(await working, { outcome: 'lost', status: 'pending' })
})

test('a claim lasts as long as its holder declared, not as the reclaiming process did', async (t) => {
  const db = await withRows(t, 1)
  const [patient, hasty] = ['15m', '100ms'].map((stuckAfter) =>
    statusTable('summary', { stuckAfter: stuckAfter as '1s' }),
  )
  assert.equal((await patient!.claim(db.pool, 1)).outcome, 'applied')
  await db.pool.query(`update summary set claim_expires_at = claim_expires_at - interval '10 min'`)
  assert.equal((await hasty!.recovery().run(db.pool)).reclaimed, 0)
  await letClaimsAge(db)
  assert.equal((await hasty!.recovery().run(db.pool)).reclaimed, 1)
})

test('a released claim costs no attempt, and leaves the row free', async (t) => {
  const db = await withRows(t, 1)
  const claimed = await summaries.claim(db.pool, 1)
  assert.equal(claimed.outcome, 'applied')
  const { claim } = claimed as { claim: { id: string; token: string } }
  assert.deepEqual(await summaries.release(db.pool, claim), { outcome: 'applied' })
  assert.deepEqual(await summaries.release(db.pool, claim), { outcome: 'applied' })
  assert.deepEqual(await summaries.commit(db.pool, claim), { outcome: 'lost', status: 'pending' })
  const row = await summary(db, 1)
  assert.deepEqual([row.status, row.attempt_count], ['pending', 0])
  assert.equal((await summaries.claim(db.pool, 1)).outcome, 'applied')
  assert.deepEqual(await summaries.release(db.pool, claim), { outcome: 'lost', status: 'processing' })
})

test('two phases with an enum and a uuid: the key of an effect does not depend on how the id was spelt', async (t) => {
  const db = await freshDatabase(t)
  const charges = statusTable('charge', { phases: { ready: 'due', claimed: 'charging', done: 'paid', failed: 'open' } })
  await db.pool.query(`
    create type charge_status as enum ('due', 'charging', 'paid', 'open');
    create table charge (id uuid primary key, status charge_status not null default 'due');
    ${charges.sql()}`)
  const id = 'a8098c1a-f86e-11da-bd1a-00112444be1e'
  await db.pool.query('insert into charge (id) values ($1)', [id])
  const keys: string[] = []
  const attempt = (spelt: string) =>
    charges.work(db.pool, spelt, async ({ effectKey }) => {
      keys.push(effectKey('charge'), effectKey('mail'))
      if (keys.length === 2) throw new Error('on purpose')
      return {}
    })
  assert.equal((await attempt(id.toUpperCase())).outcome, 'failed')
  await db.pool.query('update charge set retry_at = now()')
  const told: string[] = []
  await charges.recovery({ publish: async (ids) => told.push(...ids) }).run(db.pool)
  assert.deepEqual(told, [id])
  assert.deepEqual(await attempt(told[0]!), { outcome: 'applied' })
  assert.deepEqual(keys.slice(0, 2), keys.slice(2))
  assert.notEqual(keys[0], keys[1])
  assert.match(keys[0]!, /^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
  assert.notEqual(summaries.effectKey({ id }, 'charge'), keys[0])
  assert.deepEqual(await charges.transition(db.pool, id, 'due' as never, 'paid' as never), {
    outcome: 'already_handled',
    status: 'paid',
  })
})

/** A database that carries out the first claim, loses its reply, and is away until it is let back. */
function losingTheClaim(pool: pg.Pool): {
  readonly db: Queryable
  readonly comeBack: () => void
  readonly asked: string[]
} {
  const asked: string[] = []
  let isAway = false
  const away = () => Object.assign(new Error('connect'), { code: 'ECONNREFUSED' })
  const query = async (config: pg.QueryArrayConfig) => {
    asked.push(/^-- (\S+)/.exec(config.text)![1]!)
    if (isAway) throw away()
    const answer = await pool.query(config)
    if (asked.length > 1) return answer
    isAway = true
    throw away()
  }
  const comeBack = () => {
    isAway = false
  }
  return { db: { query } as Queryable, comeBack, asked }
}

test('a claim whose reply was lost, and then the database, is released when the database is back', async (t) => {
  const db = await withRows(t, 1)
  const { db: flaky, comeBack, asked } = losingTheClaim(db.pool)
  const working = summaries.work(flaky, 1, async () => assert.fail('it was never told of its claim'))
  await assert.rejects(working, { code: 'ECONNREFUSED' })
  assert.equal((await summary(db, 1)).status, 'processing')
  await until('it tries to give it back', () => asked.filter((name) => name === 'row.release').length > 1)
  comeBack()
  await until('it is given back', async () => (await summary(db, 1)).status === 'pending')
  const { attempt_count, last_error } = await summary(db, 1)
  assert.deepEqual([attempt_count, last_error], [0, null])
  const before = asked.length
  assert.deepEqual(await summaries.work(db.pool, 1, async () => ({ result: 'done' })), { outcome: 'applied' })
  assert.equal(asked.length, before, 'and that is the end of it')
})

test('a late release does not take the row from its new holder', async (t) => {
  const db = await withRows(t, 1)
  const { db: flaky, comeBack, asked } = losingTheClaim(db.pool)
  await assert.rejects(summaries.work(flaky, 1, async () => assert.fail('never')))
  await letClaimsAge(db)
  await summaries.recovery().run(db.pool)
  const worked = await summaries.work(db.pool, 1, async () => {
    comeBack()
    const before = asked.length
    await until('it has been answered', () => asked.length > before + 1)
    return { result: 'ours' }
  })
  assert.deepEqual(worked, { outcome: 'applied' })
})

test('a process does not stay alive for a claim that it cannot release', async () => {
  const program = `
    import { statusTable } from ${JSON.stringify(new URL('../../src/tables/index.ts', import.meta.url).href)}
    const query = () => Promise.reject(Object.assign(new Error('connect'), { code: 'ECONNREFUSED' }))
    await statusTable('summary').work({ query }, 1, async () => ({})).catch(({ code }) => console.log(code))`
  const args = ['--import', 'tsx', '--input-type=module', '-e', program]
  const { stdout } = await promisify(execFile)(process.execPath, args, { timeout: 120_000 })
  assert.equal(stdout.trim(), 'ECONNREFUSED')
})

test('a client with an open transaction is refused: a rollback would undo the claim after the effect', async (t) => {
  const db = await withRows(t, 1)
  const client = await db.connect()
  await client.query('begin')
  const refused = { code: 'INVALID_OPTION', message: /a transaction is open on it; pass the pool/ }
  await assert.rejects(
    summaries.work(client, 1, async () => assert.fail('it began')),
    refused,
  )
  await client.query('rollback')
  assert.deepEqual(await summaries.work(client, 1, async () => ({})), { outcome: 'applied' })
})
