// Calls that run side by side in one transaction.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Inbox } from '../../src/inbox/index.ts'
import { kind, withTransaction } from '../../src/index.ts'
import { Outbox } from '../../src/outbox/index.ts'
import { handleRuns, signal, start, workflow } from '../../src/workflow/index.ts'
import { claimed } from '../support/effects.ts'
import { count, scene } from '../support/worker.ts'

const mail = kind<{ to: string }>('mail')

test('calls side by side in one transaction store their jobs, also when another of them meets a conflict', async (t) => {
  const { lh, db } = await scene(t)
  await lh.enqueue(mail, { to: 'ada' }, { idempotencyKey: 'k' })
  const to = (name: string, idempotencyKey?: string) => ({
    input: { to: name },
    ...(idempotencyKey !== undefined && { idempotencyKey }),
  })
  await withTransaction(db.pool, async (tx) => {
    const [conflict, ...stored] = await Promise.allSettled([
      lh.enqueueMany(mail, [to('undone'), to('bob', 'k')], { tx }),
      lh.enqueueMany(mail, [to('cleo', 'c'), to('dan')], { tx }),
      lh.enqueueMany(mail, [to('eve', 'e'), to('fay')], { tx, onConflict: 'return' }),
      lh.enqueue(mail, { to: 'gil' }, { tx }),
    ])
    assert.equal(conflict.status === 'rejected' && conflict.reason.code, 'IDEMPOTENCY_CONFLICT')
    assert.ok(stored.every(({ status }) => status === 'fulfilled'))
  })
  const names = (await lh.list()).map(({ input }) => (input as { to: string }).to)
  assert.deepEqual(names.sort(), ['ada', 'cleo', 'dan', 'eve', 'fay', 'gil'])
})

test('an effect and an enqueue beside it in one transaction do not undo each other, and an enqueue in an effect is part of it', async (t) => {
  const { lh, db } = await scene(t)
  await db.pool.query('create table note (text text)')
  await lh.enqueue(mail, { to: 'ada' }, { idempotencyKey: 'k' })
  const job = await claimed(lh)
  await withTransaction(db.pool, async (tx) => {
    const conflicting = () =>
      lh.enqueueMany(mail, [{ input: { to: 'undone' } }, { input: { to: 'bob' }, idempotencyKey: 'k' }], { tx })
    const effect = (name: string) =>
      job.once(
        name,
        async () => {
          await tx.query('insert into note values ($1)', [name])
          await Promise.allSettled([conflicting(), lh.enqueue(mail, { to: name }, { tx })])
        },
        { tx },
      )
    const ended = await Promise.allSettled([effect('first'), conflicting(), effect('second'), conflicting()])
    assert.deepEqual(
      ended.map(({ status }) => status),
      ['fulfilled', 'rejected', 'fulfilled', 'rejected'],
    )
  })
  assert.equal(await count(db, 'from note'), 2)
  assert.equal(await count(db, `from leasehold.job where kind = 'mail'`), 3)
})

test('a conflict does not undo an event, a receipt, a signal or a completion beside it', async (t) => {
  const { lh, db } = await scene(t)
  const waits = workflow<null, unknown>('waits', {}, async (run) => run.signal('go'))
  await start(lh, waits, null, { runId: 'r' })
  await lh.drain([handleRuns(waits)])
  await lh.enqueue(mail, { to: 'ada' }, { idempotencyKey: 'k' })
  const job = await claimed(lh)
  await withTransaction(db.pool, async (tx) => {
    const conflicting = () =>
      lh.enqueueMany(mail, [{ input: { to: 'undone' } }, { input: { to: 'bob' }, idempotencyKey: 'k' }], { tx })
    const beside = [
      () => new Outbox(lh, { source: '/test' }).publish(tx, { type: 'mail.sent', key: 'k' }),
      () => new Inbox(lh, { source: 'orders' }).firstTime(tx, 'e1'),
      () => signal(lh, waits, 'r', 'go', 1, { tx }),
      () => job.complete('done', { tx }),
    ]
    for (const call of beside) {
      const ended = await Promise.allSettled([conflicting(), call()])
      assert.deepEqual(
        ended.map(({ status }) => status),
        ['rejected', 'fulfilled'],
        String(call),
      )
    }
  })
  assert.equal(await count(db, 'from leasehold.event'), 1)
  assert.equal(await count(db, 'from leasehold.inbox'), 1)
  assert.equal((await lh.get(job.id))?.status, 'completed')
  await lh.drain([handleRuns(waits)])
  assert.equal(await count(db, `from leasehold.jobs where kind = '${waits.kind.name}' and status = 'completed'`), 1)
})
