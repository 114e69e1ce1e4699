// The same idempotency key with another input: nothing of the call is enqueued, and the caller learns of it.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type IdempotencyConflictError, kind, withTransaction } from '../../src/index.ts'
import { codeOf, count, scene } from '../support/worker.ts'

const mail = kind<{ to: string }>('mail')
const key = (idempotencyKey: string, to: string) => ({ input: { to }, idempotencyKey })

test('enqueue throws, with the job that has the key', async (t) => {
  const { lh, db } = await scene(t)
  const { jobId } = await lh.enqueue(mail, { to: 'ada' }, { idempotencyKey: 'a' })
  const again = lh.enqueue(mail, { to: 'bob' }, { idempotencyKey: 'a' })
  await assert.rejects(again, (error: IdempotencyConflictError) => {
    assert.deepEqual([error.code, error.jobId], ['IDEMPOTENCY_CONFLICT', jobId])
    assert.deepEqual(error.conflicts, [{ index: 0, idempotencyKey: 'a', jobId }])
    return true
  })
  assert.equal((await lh.enqueue(mail, { to: 'ada' }, { idempotencyKey: 'a' })).outcome, 'existing')
  assert.equal(await count(db, 'from leasehold.jobs'), 1)
})

test('enqueueMany stores nothing of the call, and lists every conflict', async (t) => {
  const { lh, db } = await scene(t)
  const [first, second] = await lh.enqueueMany(mail, [key('a', 'ada'), key('b', 'bob')])
  const call = lh.enqueueMany(mail, [key('c', 'cleo'), key('b', 'eve'), key('a', 'eve'), { input: { to: 'no key' } }])
  await assert.rejects(call, (error: IdempotencyConflictError) => {
    assert.deepEqual(error.conflicts, [
      { index: 1, idempotencyKey: 'b', jobId: second!.jobId },
      { index: 2, idempotencyKey: 'a', jobId: first!.jobId },
    ])
    return true
  })
  assert.equal(await count(db, 'from leasehold.jobs'), 2)
  assert.equal(await count(db, 'from leasehold.idempotency_key'), 2)
  const [free] = await lh.enqueueMany(mail, [key('c', 'cleo')])
  assert.equal(free!.outcome, 'created')
})

test('a large call is stored whole and in the order given, or not at all', async (t) => {
  const { lh, db } = await scene(t)
  const large = (last: unknown) => Array.from({ length: 3_001 }, (_, n) => ({ input: n < 3_000 ? n : last }))
  const many = kind<unknown>('many')
  await db.pool.query(`create function refuse() returns trigger language plpgsql as $$ begin
    if new.payload = '"refused"' then raise exception 'no room'; end if; return new; end $$`)
  await db.pool.query('create trigger refuse before insert on leasehold.job for each row execute function refuse()')
  await assert.rejects(lh.enqueueMany(many, large(1n)), { code: 'VALUE_NOT_STORABLE' })
  await assert.rejects(lh.enqueueMany(many, large('refused')), /no room/)
  await assert.rejects(lh.enqueueMany(many, [...large('refused').slice(2_000), ...large(0)]), /no room/)
  assert.equal(await count(db, 'from leasehold.jobs'), 0)
  const stored = await lh.enqueueMany(many, large(3_000))
  const { rows } = await db.pool.query('select id, payload, created_at from leasehold.job order by payload::int')
  assert.deepEqual(
    rows.map(({ id, payload }) => [id, payload]),
    stored.map(({ jobId }, n) => [jobId, n]),
  )
})

test('in a transaction of the caller a conflict undoes the call and nothing else', async (t) => {
  const { lh, db } = await scene(t)
  await db.pool.query('create table note (text text)')
  await lh.enqueue(mail, { to: 'ada' }, { idempotencyKey: 'a' })
  await withTransaction(db.pool, async (tx) => {
    await tx.query(`insert into note values ('before')`)
    const call = lh.enqueueMany(mail, [key('b', 'bob'), key('a', 'eve')], { tx })
    assert.equal(await codeOf(() => call), 'IDEMPOTENCY_CONFLICT')
    await tx.query(`insert into note values ('after')`)
  })
  assert.equal(await count(db, 'from note'), 2)
  assert.equal(await count(db, 'from leasehold.jobs'), 1)
})

test('a caller that wants the outcome asks for it', async (t) => {
  const { lh, db } = await scene(t)
  const { jobId } = await lh.enqueue(mail, { to: 'ada' }, { idempotencyKey: 'a' })
  const one = await lh.enqueue(mail, { to: 'eve' }, { idempotencyKey: 'a', onConflict: 'return' })
  assert.deepEqual(one, { jobId, outcome: 'conflict' })
  const many = await lh.enqueueMany(mail, [key('a', 'eve'), key('b', 'bob')], { onConflict: 'return' })
  assert.deepEqual(
    many.map(({ outcome }) => outcome),
    ['conflict', 'created'],
  )
  assert.equal(await count(db, 'from leasehold.jobs'), 2)
  assert.equal(await codeOf(() => lh.enqueue(mail, { to: 'x' }, { onConflict: 'ignore' as never })), 'INVALID_OPTION')
})

test('leasehold.enqueue in SQL raises, unless it is asked to return the conflict', async (t) => {
  const { db } = await scene(t)
  const enqueue = (to: string, options: object) =>
    db.pool.query('select job_id, outcome from leasehold.enqueue($1, $2, $3)', ['mail', { to }, options])
  const { rows } = await enqueue('ada', { idempotency_key: 'a' })
  await assert.rejects(enqueue('eve', { idempotency_key: 'a' }), {
    code: 'LH001',
    message: new RegExp(`belongs to job ${rows[0].job_id}, which has another payload$`),
  })
  const asked = await enqueue('eve', { idempotency_key: 'a', on_conflict: 'return' })
  assert.deepEqual(asked.rows, [{ job_id: rows[0].job_id, outcome: 'conflict' }])
  assert.equal(await count(db, 'from leasehold.jobs'), 1)
})
