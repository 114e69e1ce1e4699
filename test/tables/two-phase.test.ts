// Claim, effect, commit: only the holder of the claim's token commits, and recovery reclaims the row after a crash.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { type TestContext, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import { statusTable } from '../../src/tables/index.ts'
import type { RowClaim } from '../../src/tables/outcomes.ts'
import { startFaultyProxy } from '../../tools/faulty-proxy.ts'
import { freshDatabase, type TestDatabase } from '../support/database.ts'
import { gate } from '../support/gate.ts'
import { movableTimers } from '../support/movable-clock.ts'
import { type Provider, startProvider } from '../support/provider.ts'
import { until } from '../support/until.ts'
import { lastFirst } from '../support/worker.ts'
import type { DiesAt } from './programs/summarise.ts'
import { createSummaries, letClaimsAge, summaries, summary } from './summaries.ts'

const PROGRAM = fileURLToPath(new URL('programs/summarise.ts', import.meta.url))

async function withRows(t: TestContext, n: number): Promise<TestDatabase> {
  const db = await freshDatabase(t)
  await createSummaries(db, n)
  return db
}

async function claimed(db: TestDatabase, id: number, token?: string): Promise<RowClaim> {
  const answer = await summaries.claim(db.pool, id, token === undefined ? {} : { token })
  assert.equal(answer.outcome, 'applied')
  return (answer as { claim: RowClaim }).claim
}

test('of ten claimers of a row one gets it, and no other can commit, fail or renew it', async (t) => {
  const db = await withRows(t, 1)
  const answers = await Promise.all(Array.from({ length: 10 }, () => summaries.claim(db.pool, 1)))
  const winners = answers.filter(({ outcome }) => outcome === 'applied')
  const others = answers.filter(({ outcome }) => outcome !== 'applied')
  assert.equal(winners.length, 1)
  for (const answer of others) assert.deepEqual(answer, { outcome: 'already_handled', status: 'processing' })

  const { claim } = winners[0] as { claim: RowClaim }
  const stranger = { id: 1, token: 'a8098c1a-f86e-11da-bd1a-00112444be1e' }
  const lost = { outcome: 'lost', status: 'processing' }
  assert.deepEqual(await summaries.commit(db.pool, stranger, { result: 'theirs' }), lost)
  assert.deepEqual(await summaries.fail(db.pool, stranger, new Error('theirs')), lost)
  assert.deepEqual(await summaries.renew(db.pool, stranger), lost)
  assert.deepEqual(await summaries.fail(db.pool, 1, new Error('never claimed')), {
    ...lost,
    outcome: 'already_handled',
  })
  assert.deepEqual(await summaries.renew(db.pool, claim), { outcome: 'applied' })
  assert.deepEqual(await summaries.commit(db.pool, claim, { result: 'ours' }), { outcome: 'applied' })
  const row = await summary(db, 1)
  assert.deepEqual([row.status, row.result, row.attempt_count, row.last_error], ['completed', 'ours', 0, null])
})

test('the holder of a row that was reclaimed and claimed again cannot commit the new claim', async (t) => {
  const db = await withRows(t, 1)
  const first = await claimed(db, 1)
  await letClaimsAge(db)
  await summaries.recovery().run(db.pool)
  assert.deepEqual(await summaries.commit(db.pool, first), { outcome: 'lost', status: 'pending' })
  const second = await claimed(db, 1)
  // By status alone this would be allowed.
  assert.deepEqual(await summaries.commit(db.pool, first, { result: 'stale' }), {
    outcome: 'lost',
    status: 'processing',
  })
  assert.deepEqual(await summaries.commit(db.pool, second, { result: 'new' }), { outcome: 'applied' })
  assert.deepEqual(await summaries.commit(db.pool, first), { outcome: 'lost', status: 'completed' })
  assert.equal((await summary(db, 1)).result, 'new')
})

test('a repeated call with the same token has the same outcome, and is counted once', async (t) => {
  const db = await withRows(t, 2)
  const token = 'a8098c1a-f86e-11da-bd1a-00112444be1e'
  const claim = await claimed(db, 1, token)
  const { claim_expires_at } = await summary(db, 1)
  assert.deepEqual(await claimed(db, 1, token), claim)
  assert.deepEqual((await summary(db, 1)).claim_expires_at, claim_expires_at)
  assert.deepEqual(await summaries.commit(db.pool, claim, { result: 'x' }), { outcome: 'applied' })
  assert.deepEqual(await summaries.commit(db.pool, claim, { result: 'y' }), { outcome: 'applied' })
  assert.equal((await summary(db, 1)).result, 'x')
  // A finished row is not claimed again, with any token.
  assert.deepEqual(await summaries.claim(db.pool, 1, { token }), { outcome: 'already_handled', status: 'completed' })

  const failing = await claimed(db, 2, token)
  for (const _ of ['first', 'again']) {
    assert.deepEqual(await summaries.fail(db.pool, failing, new Error('no\0pe')), {
      outcome: 'applied',
      givenUp: false,
    })
  }
  const row = await summary(db, 2)
  assert.deepEqual([row.status, row.attempt_count, row.last_error], ['error', 1, 'Error: no\ufffdpe'])
  const gone = { id: 3, token }
  for (const answer of [
    summaries.commit(db.pool, gone),
    summaries.fail(db.pool, gone, 1),
    summaries.renew(db.pool, gone),
  ]) {
    assert.deepEqual(await answer, { outcome: 'not_found' })
  }
  assert.deepEqual(await summaries.claim(db.pool, 3), { outcome: 'not_found' })
})

test('work() records results, errors, and results that cannot be stored', async (t) => {
  const db = await withRows(t, 4)
  assert.deepEqual(await summaries.work(db.pool, 1, async () => ({ result: 'done' })), { outcome: 'applied' })
  assert.deepEqual(await summaries.work(db.pool, 1, async () => assert.fail('not twice')), {
    outcome: 'already_handled',
    status: 'completed',
  })
  const error = new Error('on purpose')
  const thrown = await summaries.work(db.pool, 2, () => {
    throw error
  })
  assert.deepEqual(thrown, { outcome: 'failed', error, givenUp: false })
  const unknownColumn = { results: 'x' } as never
  assert.equal((await summaries.work(db.pool, 3, async () => unknownColumn)).outcome, 'failed')
  assert.equal((await summaries.work(db.pool, 4, async () => ({ result: 'a\0b' }))).outcome, 'failed')
  const said = await Promise.all([2, 3, 4].map((id) => summary(db, id)))
  assert.deepEqual(
    said.map((row) => [row.status, row.attempt_count, row.last_error?.slice(0, 30)]),
    [
      ['error', 1, 'Error: on purpose'],
      ['error', 1, 'InvalidOptionError: The option'],
      ['error', 1, 'error: invalid byte sequence f'],
    ],
  )
})

async function summarise(
  t: TestContext,
  db: TestDatabase,
  provider: Provider,
  id: number,
  diesAt: DiesAt,
  keyed: boolean,
) {
  const orders = JSON.stringify({ url: db.url, provider: provider.url, id, diesAt, keyed })
  const child = spawn(process.execPath, ['--import', 'tsx', PROGRAM, orders], { stdio: ['ignore', 'pipe', 'inherit'] })
  t.after(() => child.kill('SIGKILL'))
  let said = ''
  child.stdout.setEncoding('utf8').on('data', (text) => {
    said += text
  })
  const [code, signal] = await once(child, 'close')
  return signal ?? (code === 0 ? said : `exit ${code}`)
}

const CRASHES: readonly { diesAt: DiesAt; keyed: boolean; left: string; calls: number; happened: number }[] = [
  { diesAt: 'before the claim', keyed: false, left: 'pending', calls: 1, happened: 1 },
  { diesAt: 'after the claim', keyed: false, left: 'processing', calls: 1, happened: 1 },
  // The provider was called and the outcome is unknown: called again, it acts again, unless it has the same key.
  { diesAt: 'after the effect', keyed: false, left: 'processing', calls: 2, happened: 2 },
  { diesAt: 'after the effect', keyed: true, left: 'processing', calls: 2, happened: 1 },
  { diesAt: 'after the commit', keyed: false, left: 'completed', calls: 1, happened: 1 },
]

for (const { diesAt, keyed, left, calls, happened } of CRASHES) {
  const key = keyed ? 'with a key' : 'without a key'
  test(`killed ${diesAt}, ${key}: the row is finished by another, and the effect happens ${happened} time(s)`, async (t) => {
    const undo = lastFirst(t)
    const db = await freshDatabase(undo as TestContext)
    await createSummaries(db, 1)
    const provider = await startProvider(undo)
    assert.equal(await summarise(t, db, provider, 1, diesAt, keyed), 'SIGKILL')
    assert.equal((await summary(db, 1)).status, left)
    // SQS redelivers the message: at once, then after the claim expired.
    if (left !== 'pending') assert.equal(await summarise(t, db, provider, 1, 'never', keyed), 'already_handled')
    await letClaimsAge(db)
    const did = await summaries.recovery().run(db.pool)
    assert.equal(did.reclaimed, left === 'processing' ? 1 : 0)
    const last = await summarise(t, db, provider, 1, 'never', keyed)
    assert.equal(last, left === 'completed' ? 'already_handled' : 'applied')
    const row = await summary(db, 1)
    assert.deepEqual([row.status, row.attempt_count], ['completed', left === 'processing' ? 1 : 0])
    assert.deepEqual([provider.calls.length, provider.happened()], [calls, happened])
  })
}

test('a slow holder that renews keeps its row; one that does not loses it and gets lost', async (t) => {
  const clock = movableTimers(t)
  const db = await withRows(t, 2)
  const table = statusTable('summary', { columns: ['result'], stuckAfter: '30s' })
  const reap = table.recovery()
  const { opened, open } = gate()
  let renewals = 0
  const counting = {
    query: async (config: { text: string }) => {
      const answer = await db.pool.query(config as pg.QueryArrayConfig)
      if (config.text.startsWith('-- row.renew')) renewals++
      return answer
    },
  }
  const begun = gate()
  const slow = table.work(counting, 1, async ({ signal }) => {
    begun.open()
    await opened
    return { result: String(signal.aborted) }
  })
  const silent = await table.claim(db.pool, 2)
  await begun.opened
  // A third of their time each, in this process and in the database.
  for (let thirds = 1; thirds <= 4; thirds++) {
    clock.pass(10_000)
    await until('the slow one is heard of', () => renewals >= thirds)
    await db.pool.query(`update summary set claim_expires_at = claim_expires_at - interval '10 s'`)
    await reap.run(db.pool)
  }
  assert.deepEqual([(await summary(db, 1)).status, (await summary(db, 2)).status], ['processing', 'pending'])
  open()
  assert.deepEqual(await slow, { outcome: 'applied' })
  const row = await summary(db, 1)
  assert.deepEqual([row.result, row.attempt_count], ['false', 0])
  const late = await table.commit(db.pool, (silent as { claim: RowClaim }).claim)
  assert.deepEqual(late, { outcome: 'lost', status: 'pending' })
})

test('a holder whose row is reclaimed is aborted, and gets lost', async (t) => {
  const db = await withRows(t, 1)
  const quick = statusTable('summary', { columns: ['result'], stuckAfter: '300ms' })
  let wasTold = false
  const worked = await quick.work(db.pool, 1, async ({ signal }) => {
    await db.pool.query(`update summary set status = 'pending', claim_token = null, claim_expires_at = null`)
    await until('it is told', () => signal.aborted)
    wasTold = true // An error thrown here would be recorded, not seen.
    return { result: 'late' }
  })
  assert.ok(wasTold)
  assert.deepEqual(worked, { outcome: 'lost', status: 'pending' })
  assert.equal((await summary(db, 1)).result, null)
})

for (const statement of ['row.claim', 'row.commit'] as const) {
  test(`the reply to ${statement} is cut: work() asks again, and the effect happens once`, async (t) => {
    const undo = lastFirst(t)
    const db = await freshDatabase(undo as TestContext)
    await createSummaries(db, 1)
    const provider = await startProvider(undo)
    const { hostname: host, port } = new URL(db.url)
    const proxy = await startFaultyProxy({ host, port: Number(port) })
    undo.after(() => proxy.stop())
    const pool = new pg.Pool({ connectionString: proxy.url(db.url) })
    pool.on('error', () => {})
    undo.after(() => pool.end().catch(() => {}))
    const cut = proxy.cutReplies(`-- ${statement}`)
    const worked = await summaries.work(pool, 1, async () => {
      const response = await fetch(`${provider.url}/summary`, { method: 'POST' })
      return { result: await response.text() }
    })
    await cut
    assert.deepEqual(worked, { outcome: 'applied' })
    assert.equal((await summary(db, 1)).status, 'completed')
    assert.equal(provider.calls.length, 1)
  })
}
