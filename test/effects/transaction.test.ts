// An effect in the caller's transaction: marker, effect and result commit together, or not at all.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import pg from 'pg'
import { type ManualJob, NotDone, TransactionConflictError, withTransaction } from '../../src/index.ts'
import { startFaultyProxy } from '../../tools/faulty-proxy.ts'
import { waitUntilBlocked } from '../support/database.ts'
import { again, claimed, failureOf, ledger, returned, takenOver } from '../support/effects.ts'
import { session } from '../support/queue.ts'
import { codeOf, count, type Scene, scene } from '../support/worker.ts'

async function withReceipts(t: TestContext): Promise<Scene> {
  const setting = await scene(t)
  await setting.db.pool.query('create table receipt (job_id bigint, generation int)')
  return setting
}

type Tx = { query(text: string, values: unknown[]): Promise<unknown> }

const insert = (job: ManualJob<number>) => async (tx: Tx) => {
  await tx.query('insert into receipt values ($1, $2)', [job.id, job.generation])
  return { by: job.generation }
}

async function receipts({ db }: Scene): Promise<number> {
  return count(db, 'from receipt')
}

/** A session with a transaction open on it, and an attempt of the effect in it. */
async function attempt({ db }: Scene, job: ManualJob<number>, begin = 'begin') {
  const { client, pid } = await session(db)
  await client.query(begin)
  return { client, pid, once: () => job.once('receipt', insert(job), { tx: client }) }
}

test('two runs, one effect: the second gets the stored result', async (t) => {
  const setting = await withReceipts(t)
  const first = await claimed(setting.lh)
  const run = (job: ManualJob<number>) =>
    withTransaction(setting.db.pool, (tx) => job.once('receipt', insert(job), { tx }))
  assert.deepEqual(await run(first), { by: 1 })
  await first.release()
  const second = await again(setting.lh)
  assert.deepEqual(await run(second), { by: 1 })
  assert.equal(await receipts(setting), 1)
  assert.deepEqual(await ledger(setting.lh, second), ['receipt done by 1'])
})

test('a rollback removes the marker, so the effect is run again: by the same attempt, or by the next', async (t) => {
  const setting = await withReceipts(t)
  const first = await claimed(setting.lh)
  for (const job of [first, first]) {
    const { client, once } = await attempt(setting, job)
    await once()
    await client.query('rollback')
  }
  assert.deepEqual([await receipts(setting), await ledger(setting.lh, first)], [0, []])
  const second = await takenOver(setting)
  const { client, once } = await attempt(setting, second)
  assert.deepEqual(await once(), { by: 2 })
  await client.query('commit')
  assert.equal(await receipts(setting), 1)
})

test('an error of the effect is thrown unchanged', async (t) => {
  const setting = await withReceipts(t)
  const job = await claimed(setting.lh)
  const cause = new Error('no such customer')
  const run = (error: Error) =>
    failureOf(
      withTransaction(setting.db.pool, (tx) =>
        job.once(
          'receipt',
          () => {
            throw error
          },
          { tx },
        ),
      ),
    )
  assert.equal(await run(cause), cause)
  assert.equal(await run(new NotDone('declined', { cause })), cause)
  assert.deepEqual(await ledger(setting.lh, job), [])
})

test('the job can be completed in the same transaction, inside the effect or after it', async (t) => {
  const setting = await withReceipts(t)
  const first = await claimed(setting.lh)
  await withTransaction(setting.db.pool, async (tx) => {
    const result = await first.once('receipt', insert(first), { tx })
    await first.complete(result, { tx })
  })
  const second = await claimed(setting.lh)
  await withTransaction(setting.db.pool, (tx) =>
    second.once('receipt', async () => second.complete(await insert(second)(tx), { tx }), { tx }),
  )
  for (const { id } of [first, second]) assert.equal((await setting.lh.get(id))?.status, 'completed')
  assert.equal(await receipts(setting), 2)
})

test('a stale worker is refused, and its transaction writes nothing', async (t) => {
  const setting = await withReceipts(t)
  const first = await claimed(setting.lh)
  const stale = await attempt(setting, first) // Its transaction is open already.
  await returned(setting.db)
  assert.equal(await codeOf(stale.once), 'LEASE_LOST', 'pending')
  const second = await again(setting.lh)
  assert.equal(await codeOf(stale.once), 'LEASE_LOST', 'claimed by another')
  const fresh = await attempt(setting, second)
  await fresh.once()
  assert.equal(await codeOf(stale.once), 'LEASE_LOST', 'while another does it')
  await fresh.client.query('commit')
  assert.equal(await codeOf(stale.once), 'LEASE_LOST', 'when another has done it')
  await stale.client.query('commit')
  assert.equal(await receipts(setting), 1)
})

test('while the transaction is open the sweep cannot reclaim the job, even if its lease expired', async (t) => {
  const setting = await withReceipts(t)
  const first = await claimed(setting.lh)
  const slow = await attempt(setting, first)
  await slow.once()
  await assert.rejects(takenOver(setting), /0 !== 1/, 'nothing was returned')
  await slow.client.query('commit')
  const second = await takenOver(setting)
  const { client, once } = await attempt(setting, second)
  assert.deepEqual(await once(), { by: 1 })
  await client.query('commit')
  assert.equal(await receipts(setting), 1)
})

for (const [end, by, rows] of [
  ['commit', 'the first', 1],
  ['rollback', 'the second', 1],
] as const) {
  test(`two transactions of one attempt at once: the second waits, and after ${end} the effect is that of ${by}`, async (t) => {
    const setting = await withReceipts(t)
    const job = await claimed(setting.lh)
    const [one, two] = [await attempt(setting, job), await attempt(setting, job)]
    await one.once()
    let ran = false
    const second = job.once(
      'receipt',
      async (tx) => {
        ran = true
        return insert(job)(tx)
      },
      { tx: two.client },
    )
    second.catch(() => {})
    await waitUntilBlocked(await setting.db.connect(), two.pid)
    await one.client.query(end)
    assert.deepEqual(await second, { by: 1 })
    await two.client.query('commit')
    assert.deepEqual([ran, await receipts(setting)], [end === 'rollback', rows])
  })
}

test('two calls at once in one transaction run the effect once', async (t) => {
  const setting = await withReceipts(t)
  const job = await claimed(setting.lh)
  const { client, once } = await attempt(setting, job)
  assert.deepEqual(await Promise.all([once(), once()]), [{ by: 1 }, { by: 1 }])
  await client.query('commit')
  assert.equal(await receipts(setting), 1)
})

test('under REPEATABLE READ a lost race is TransactionConflictError, and the next try knows', async (t) => {
  const setting = await withReceipts(t)
  const job = await claimed(setting.lh)
  const strict = await attempt(setting, job, 'begin isolation level repeatable read')
  await strict.client.query('select') // Its snapshot.
  const other = await attempt(setting, job)
  await other.once()
  await other.client.query('commit')
  assert.ok((await failureOf(strict.once())) instanceof TransactionConflictError)
  await strict.client.query('rollback')
  await strict.client.query('begin isolation level repeatable read')
  assert.deepEqual(await strict.once(), { by: 1 })
})

test('without a transaction on it, a pool or a client is refused', async (t) => {
  const setting = await withReceipts(t)
  const job = await claimed(setting.lh)
  const { client } = await session(setting.db)
  for (const tx of [setting.db.pool, client]) {
    assert.equal(await codeOf(() => job.once('receipt', insert(job), { tx })), 'INVALID_OPTION')
    assert.equal(await codeOf(() => job.assertLease(tx)), 'INVALID_OPTION')
  }
  assert.deepEqual([await receipts(setting), await ledger(setting.lh, job)], [0, []])
})

test('an effect begun outside by a lost attempt is unknown inside a transaction; with retry it is taken over', async (t) => {
  const setting = await withReceipts(t)
  const first = await claimed(setting.lh)
  await failureOf(first.once('receipt', () => Promise.reject(new Error('x'))))
  const second = await takenOver(setting)
  const run = (ifUnknown: 'stop' | 'retry') =>
    withTransaction(setting.db.pool, (tx) => second.once('receipt', insert(second), { tx, ifUnknown }))
  assert.equal(await codeOf(() => run('stop')), 'EFFECT_UNKNOWN')
  assert.deepEqual(await run('retry'), { by: 2 })
  assert.deepEqual([await receipts(setting), await ledger(setting.lh, second)], [1, ['receipt done by 2']])
})

test('the reply to COMMIT is lost: the next attempt gets the result, and the effect is there once', async (t) => {
  const setting = await withReceipts(t)
  const { hostname: host, port } = new URL(setting.db.url)
  const proxy = await startFaultyProxy({ host, port: Number(port) })
  setting.undo.after(() => proxy.stop())
  const first = await claimed(setting.lh)
  const pool = new pg.Pool({ connectionString: proxy.url(setting.db.url) })
  pool.on('error', () => {})
  setting.undo.after(() => pool.end())
  const cut = proxy.cutReplies('commit')
  const run = (job: ManualJob<number>) => withTransaction(pool, (tx) => job.once('receipt', insert(job), { tx }))
  await failureOf(run(first))
  await cut
  const second = await takenOver(setting)
  assert.deepEqual(await run(second), { by: 1 })
  assert.equal(await receipts(setting), 1)
})
