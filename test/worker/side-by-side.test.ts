// Calls of enqueue() that run side by side in one transaction.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { kind, withTransaction } from '../../src/index.ts'
import { scene } from '../support/worker.ts'

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
