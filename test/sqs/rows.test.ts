// A failure that can be recorded in its row is, and its message is deleted. Otherwise SQS redelivers the message.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { z } from 'zod'
import { Fatal, RetryAfter } from '../../src/index.ts'
import { type AnsweringHandle, inOneUpdate, inTwoPhases } from '../../src/sqs/index.ts'
import { statusTable } from '../../src/tables/index.ts'
import { gate } from '../support/gate.ts'
import { createSummaries, summaries, summary } from '../tables/summaries.ts'
import { isEmpty, next, redeliveringAfter, type SqsScene, sqsScene } from './scene.ts'

interface Body {
  readonly id: number
}

const body = z.object({ id: z.number() })
const id = ({ body }: { readonly body: Body }) => body.id
type Work = (message: { readonly body: Body }) => Promise<{ result: string } | null | undefined>

/** The same work, in one phase or two. */
function ways({ db }: SqsScene, work: Work): readonly (readonly [way: string, handle: AnsweringHandle<Body>])[] {
  return [
    ['in two phases', inTwoPhases(summaries, db.pool, { id, effect: work })],
    ['in one update', inOneUpdate(summaries, db.pool, { id, from: 'pending', to: 'completed', work })],
  ]
}

const arrows = { draft: ['pending'], pending: ['paid'], paid: ['shipped'] } as const
const orders = statusTable('orders', { arrows })
const plainOrders = statusTable('orders', { arrows, phases: false })

/** One order of this status, and what it is now. */
async function createOrder({ db }: SqsScene, status: string) {
  await db.pool.query(
    `create table orders (id integer primary key, status text not null default 'pending'); ${orders.sql()}`,
  )
  await db.pool.query('insert into orders (id, status) values (1, $1)', [status])
  const order = async () => (await db.pool.query('select status, attempt_count, last_error from orders')).rows[0]
  const becomes = (status: string) => db.pool.query('update orders set status = $1', [status])
  return { order, becomes }
}

for (const [what, table, from, to] of [
  ['from a status that is not the ready one', orders, 'paid', 'shipped'],
  ['of a table without phases', plainOrders, 'pending', 'paid'],
] as const) {
  test(`in one update ${what}: a failure that cannot be recorded returns the message, and the row is unchanged`, async (t) => {
    const scene = await sqsScene(t)
    const { db, sqs, queue, send, consumer, depth } = scene
    const { order } = await createOrder(scene, from)
    const url = await queue()
    const looked = gate()
    let attempts = 0
    const work = async () => {
      if (++attempts === 1) throw new Error('on purpose')
      return undefined
    }
    const handle = inOneUpdate<Body, typeof arrows, 'paid' | 'pending', never>(table, db.pool, { id, from, to, work })
    const busy = consumer({ queueUrl: url, body, handle }, redeliveringAfter(sqs.client, looked.opened))
    const [returned, handled] = [next(busy, 'returned'), next(busy, 'handled')]
    await send(url, { id: 1 })
    assert.deepEqual([(await returned).reason, String((await returned).error)], ['threw', 'Error: on purpose'])
    assert.deepEqual(await order(), { status: from, attempt_count: 0, last_error: null })
    assert.deepEqual(await depth(url), { visible: 0, inFlight: 1 })
    looked.open()
    assert.equal((await handled).receiveCount, 2)
    assert.equal((await order()).status, to)
    await isEmpty(scene, url)
  })
}

for (const way of ['in one update', 'in two phases'] as const) {
  test(`a row that is not ready yet, ${way}: its message is returned, and nothing has happened until then`, async (t) => {
    const scene = await sqsScene(t)
    const { db, sqs, queue, send, consumer } = scene
    const { order, becomes } = await createOrder(scene, 'draft')
    const url = await queue()
    const isReady = gate()
    let worked = 0
    const work = async () => {
      worked++
      return undefined
    }
    const isOne = way === 'in one update'
    const handle: AnsweringHandle<Body> = isOne
      ? inOneUpdate(orders, db.pool, { id, from: 'paid', to: 'shipped', work })
      : inTwoPhases(orders, db.pool, { id, effect: work })
    const busy = consumer({ queueUrl: url, body, handle }, redeliveringAfter(sqs.client, isReady.opened))
    const [returned, handled] = [next(busy, 'returned'), next(busy, 'handled')]
    await send(url, { id: 1 })
    assert.deepEqual([(await returned).reason, (await returned).rowId, worked], ['row_not_ready', '1', 0])
    await becomes(isOne ? 'paid' : 'pending')
    isReady.open()
    assert.equal((await handled).receiveCount, 2)
    assert.deepEqual([worked, (await order()).status], [1, isOne ? 'shipped' : 'completed'])
    await isEmpty(scene, url)
  })
}

test('a row with an undeclared status is unchanged, and its message is returned', async (t) => {
  const scene = await sqsScene(t)
  const { db, queue, send, consumer } = scene
  await db.pool.query(`create table summary (id integer primary key, status text not null, result text,
    claim_token uuid, claim_expires_at timestamptz, retry_at timestamptz); insert into summary values (1, 'PENDING')`)
  for (const [way, handle] of ways(scene, () => assert.fail('it may not be ready'))) {
    const url = await queue()
    const busy = consumer({ queueUrl: url, body, handle })
    const ended = Promise.race([
      next(busy, 'returned').then(({ reason }) => reason),
      next(busy, 'already_handled').then(() => 'deleted'),
    ])
    await send(url, { id: 1 })
    assert.equal(await ended, 'row_not_ready', way)
  }
})

for (const [what, sql, says] of [
  ['it is too long', 'alter table summary alter result type varchar(5)', /too long/],
  [
    'a trigger raises',
    `create function no() returns trigger language plpgsql as $$ begin raise exception 'never'; end $$;
     create trigger no before update on summary for each row when (new.result <> '') execute function no()`,
    /never/,
  ],
] as const)
  test(`a result that can never be stored (${what}) is recorded: the work is not retried`, async (t) => {
    const scene = await sqsScene(t)
    const { db, queue, send, consumer } = scene
    await createSummaries(db, 2)
    await db.pool.query(sql)
    let worked = 0
    const work = async () => {
      worked++
      return { result: 'much too long' }
    }
    for (const [index, [, handle]] of ways(scene, work).entries()) {
      const url = await queue()
      const busy = consumer({ queueUrl: url, body, handle })
      const failed = next(busy, 'failed')
      await send(url, { id: index + 1 })
      assert.equal((await failed).deleted, true)
      const { status, retry_at, attempt_count, last_error } = await summary(db, index + 1)
      assert.deepEqual([status, retry_at, attempt_count, worked], ['error', null, 1, index + 1])
      assert.match(last_error!, says)
      await isEmpty(scene, url)
    }
  })

test('work that returns null, or nothing, has set nothing', async (t) => {
  const scene = await sqsScene(t)
  const { db, queue, send, consumer } = scene
  await createSummaries(db, 4)
  const work: Work = async ({ body }) => (body.id % 2 === 0 ? null : undefined)
  for (const [index, [way, handle]] of ways(scene, work).entries()) {
    const url = await queue()
    const busy = consumer({ queueUrl: url, body, handle })
    for (const id of [index * 2 + 1, index * 2 + 2]) {
      const ended = Promise.race([
        next(busy, 'handled').then(() => 'handled'),
        next(busy, 'failed').then(() => 'failed'),
      ])
      await send(url, { id })
      assert.equal(await ended, 'handled', way)
      assert.deepEqual([(await summary(db, id)).status, (await summary(db, id)).result], ['completed', null])
    }
  }
})

test('Fatal is not retried, and RetryAfter not before its delay', async (t) => {
  const scene = await sqsScene(t)
  const { db, queue, send, consumer } = scene
  await createSummaries(db, 4)
  const work = async ({ body }: { readonly body: Body }) => {
    throw body.id % 2 === 0 ? new RetryAfter('6h') : new Fatal('never')
  }
  const { rows } = await db.pool.query(`select now() + interval '6 hours' as in_six_hours`)
  const inSixHours: Date = rows[0].in_six_hours
  for (const [index, [, handle]] of ways(scene, work).entries()) {
    const url = await queue()
    const busy = consumer({ queueUrl: url, body, handle })
    for (const id of [index * 2 + 1, index * 2 + 2]) {
      const failed = next(busy, 'failed')
      await send(url, { id })
      await failed
      const { status, retry_at } = await summary(db, id)
      assert.equal(status, 'error')
      if (id % 2 === 0) assert.ok(retry_at! >= inSixHours, String(retry_at))
      else assert.equal(retry_at, null)
    }
  }
})
