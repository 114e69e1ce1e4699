// The ways of handling a message: the outcome of each, how often its effect happens, and the state of the message.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { z } from 'zod'
import { Inbox } from '../../src/inbox/index.ts'
import { kind } from '../../src/index.ts'
import { inOneTransaction, inOneUpdate, inTwoPhases, intoQueue, intoQueues } from '../../src/sqs/index.ts'
import { gate } from '../support/gate.ts'
import { callProvider } from '../support/provider.ts'
import { count } from '../support/worker.ts'
import { createSummaries, summaries, summary } from '../tables/summaries.ts'
import { isEmpty, next, nextEvents, sqsScene, through } from './scene.ts'

const body = z.object({ id: z.number() })

test('in two phases: ten deliveries, one effect, and duplicates are counted', async (t) => {
  const scene = await sqsScene(t)
  const { db, provider, queue, sendMany, consumer } = scene
  await createSummaries(db, 1)
  const url = await queue()
  await sendMany(url, new Array(10).fill({ id: 1 }))
  const busy = consumer({
    queueUrl: url,
    body,
    handle: inTwoPhases(summaries, db.pool, {
      id: ({ body }) => body.id,
      effect: async () => {
        const answer = await callProvider(provider.url, 'summary-1')
        return { result: JSON.stringify(answer) }
      },
    }),
  })
  const [[handled]] = await Promise.all([nextEvents(busy, 'handled', 1), nextEvents(busy, 'already_handled', 9)])
  assert.deepEqual([handled!.rowId, handled!.deleted, handled!.receiveCount], ['1', true, 1])
  assert.equal((await summary(db, 1)).status, 'completed')
  assert.equal(provider.happened(), 1)
  await isEmpty(scene, url)
  const { received, handled: done, already_handled, returned, failed } = busy.counts()
  assert.deepEqual([received, done, already_handled, returned, failed], [10, 1, 9, 0, 0])
})

test('in two phases: an error is recorded in the row, the message deleted, and recovery sends another', async (t) => {
  const scene = await sqsScene(t)
  const { db, queue, send, consumer } = scene
  await createSummaries(db, 1)
  const url = await queue()
  let attempts = 0
  const busy = consumer({
    queueUrl: url,
    body,
    handle: inTwoPhases(summaries, db.pool, {
      id: ({ body }) => body.id,
      effect: async () => {
        if (++attempts === 1) throw new Error('the model is tired')
        return { result: 'better' }
      },
    }),
  })
  const failed = next(busy, 'failed')
  await send(url, { id: 1 })
  assert.equal(((await failed).error as Error).message, 'the model is tired')
  const { status, attempt_count, last_error } = await summary(db, 1)
  assert.deepEqual([status, attempt_count, last_error], ['error', 1, 'Error: the model is tired'])
  await isEmpty(scene, url)

  const handled = next(busy, 'handled')
  await db.pool.query(`update summary set retry_at = retry_at - interval '1 hour'`)
  const publish = async (ids: readonly string[]) => {
    for (const id of ids) await send(url, { id: Number(id) })
  }
  await summaries.recovery({ publish }).run(db.pool)
  await handled
  assert.equal((await summary(db, 1)).status, 'completed')
  await isEmpty(scene, url)
})

test('in one update: two overlapping deliveries both do the work, one changes the row, later ones do nothing', async (t) => {
  const scene = await sqsScene(t)
  const { db, provider, queue, send, sendMany, consumer } = scene
  await createSummaries(db, 1)
  const url = await queue()
  await sendMany(url, [{ id: 1 }, { id: 1 }])
  const both = gate()
  let inside = 0
  const busy = consumer({
    queueUrl: url,
    body,
    handle: inOneUpdate(summaries, db.pool, {
      id: ({ body }) => body.id,
      from: 'pending',
      to: 'completed',
      work: async () => {
        if (++inside === 2) both.open()
        await both.opened
        return { result: JSON.stringify(await callProvider(provider.url, 'summary')) }
      },
    }),
  })
  await Promise.all([next(busy, 'handled'), next(busy, 'already_handled')])
  assert.equal(provider.happened(), 2)
  const again = next(busy, 'already_handled')
  await send(url, { id: 1 })
  assert.equal((await again).rowId, '1')
  assert.equal(provider.happened(), 2)
  await isEmpty(scene, url)
})

test('in one update: an error of the work is recorded in the row', async (t) => {
  const scene = await sqsScene(t)
  const { db, queue, send, consumer } = scene
  await createSummaries(db, 1)
  const url = await queue()
  const work = async () => {
    throw new Error('no')
  }
  const busy = consumer({
    queueUrl: url,
    body,
    handle: inOneUpdate(summaries, db.pool, { id: ({ body }) => body.id, from: 'pending', to: 'completed', work }),
  })
  const failed = next(busy, 'failed')
  await send(url, { id: 1 })
  await failed
  const { status, attempt_count, last_error } = await summary(db, 1)
  assert.deepEqual([status, attempt_count, last_error], ['error', 1, 'Error: no'])
  await isEmpty(scene, url)
})

test('once per message: a counter moves once, also when a message is delivered or sent again', async (t) => {
  const scene = await sqsScene(t)
  const { db, lh, queue, sendMany, consumer } = scene
  await db.pool.query('create table balance (amount integer); insert into balance values (0)')
  const url = await queue()
  await sendMany(url, new Array(10).fill({ payment: 'p-1' }))
  const busy = consumer({
    queueUrl: url,
    body: z.object({ payment: z.string() }),
    handle: inOneTransaction(
      new Inbox(lh, { source: 'payments', redeliveredFor: '4d' }),
      (tx) => tx.query('update balance set amount = amount + 1'),
      { key: ({ body }) => body.payment },
    ),
  })
  await Promise.all([nextEvents(busy, 'handled', 1), nextEvents(busy, 'already_handled', 9)])
  assert.equal((await db.pool.query('select amount from balance')).rows[0].amount, 1)
  await isEmpty(scene, url)
})

test('into a queue: one job per message id, and the message is deleted after it', async (t) => {
  const scene = await sqsScene(t)
  const { db, lh, queue, send, sendMany, consumer } = scene
  const mail = kind('mail', { input: z.object({ to: z.string() }) })
  const url = await queue()
  const busy = consumer({
    queueUrl: url,
    body: z.object({ to: z.string() }),
    handle: intoQueue(new Inbox(lh, { source: 'test' }), mail),
  })
  const handled = nextEvents(busy, 'handled', 3)
  const messageId = await send(url, { to: 'ann' })
  await sendMany(url, [{ to: 'bob' }, { to: 'bob' }])
  await handled
  assert.equal(await count(db, `from leasehold.jobs where kind = 'mail'`), 3)
  assert.equal(await count(db, `from leasehold.inbox where source = 'test' and event_id = $1`, [messageId]), 1)
  assert.equal(await count(db, 'from leasehold.idempotency_key'), 0)
  await isEmpty(scene, url)
})

test('into queues: the kind by a field, one business key one job, and another input under it is a dead letter', async (t) => {
  const scene = await sqsScene(t)
  const { db, lh, queue, send, consumer, receive } = scene
  const [mail, print] = [kind('mail'), kind('print')]
  const [url, dead] = [await queue(), await queue()]
  const busy = consumer<{ type: string; id: string }>({
    queueUrl: url,
    deadLetterQueueUrl: dead,
    handle: intoQueues(new Inbox(lh, { source: 'test' }), {
      kinds: [mail, print],
      kindOf: 'type',
      key: ({ body }) => `${body.type} ${body.id}`,
    }),
  })
  const done = Promise.all([nextEvents(busy, 'handled', 2), next(busy, 'already_handled')])
  for (const type of ['mail', 'print', 'mail']) await send(url, { type, id: 'a' })
  await done
  assert.equal(await count(db, `from leasehold.jobs where kind in ('mail', 'print')`), 2)

  for (const [wrong, reason] of [
    [{ type: 'mail', id: 'a', more: 1 }, 'key_conflict'],
    [{ type: 'fax', id: 'b' }, 'unknown_kind'],
    [{ id: 'b' }, 'unknown_kind'],
    [{ type: 'mail', id: 'c', text: 'a NUL \0' }, 'invalid_body'],
  ] as const) {
    const buried = next(busy, 'dead_letter')
    await send(url, wrong)
    assert.equal((await buried).reason, reason)
    const [letter] = await receive(dead, 60)
    assert.deepEqual(JSON.parse(letter!.Body!), wrong)
    assert.equal(letter!.MessageAttributes!['leasehold.reason']!.StringValue, reason)
  }
  assert.equal(await count(db, 'from leasehold.jobs'), 2)
  await isEmpty(scene, url)
})

for (const [known, key] of [
  ['by its id', undefined],
  ['by a key of its own', ({ body }: { readonly body: { readonly to: string } }) => body.to],
] as const) {
  test(`into queues, ${known}: a redelivery whose input comes out differently is already handled`, async (t) => {
    const scene = await sqsScene(t)
    const { db, lh, sqs, queue, send, consumer } = scene
    const url = await queue()
    let deletes = 0
    const client = through(sqs.client, async (name, send) => {
      if (name !== 'DeleteMessageBatch' || ++deletes > 1) return send()
      return { Failed: [{ Id: '0', Code: 'AccessDenied', SenderFault: true }] }
    })
    const handle = intoQueues<{ to: string }>(new Inbox(lh, { source: 'test' }), {
      kinds: [kind('mail')],
      kindOf: () => 'mail',
      input: ({ body, receiveCount }) => ({ ...body, receiveCount }),
      ...(key === undefined ? {} : { key }),
    })
    const busy = consumer<{ to: string }>({ queueUrl: url, handle }, client)
    const [handled, ended] = [next(busy, 'handled'), next(busy, 'already_handled')]
    await send(url, { to: 'ann' })
    assert.equal((await handled).deleted, false)
    sqs.endTimeouts(url)
    const { receiveCount, deleted } = await ended
    assert.deepEqual([receiveCount, deleted], [2, true])
    assert.equal(await count(db, 'from leasehold.jobs'), 1)
    await isEmpty(scene, url)
  })
}

test('a custom function: the message is deleted when it returns, and redelivered when it throws', async (t) => {
  const scene = await sqsScene(t)
  const { queue, send, consumer, log } = scene
  const url = await queue()
  const seen: unknown[] = []
  const busy = consumer({
    queueUrl: url,
    body: 'text',
    handle: async ({ body, receiveCount }) => {
      seen.push([body, receiveCount])
      if (receiveCount === 1) throw new Error('secret')
    },
  })
  const [returned, redelivered, handled] = [next(busy, 'returned'), next(busy, 'redelivered'), next(busy, 'handled')]
  const messageId = await send(url, 'hello {')
  const { reason, delayMs, error } = await returned
  assert.deepEqual([reason, delayMs, (error as Error).message], ['threw', 1_000, 'secret'])
  assert.deepEqual([(await redelivered).receiveCount, (await handled).messageId], [2, messageId])
  assert.deepEqual(seen, [
    ['hello {', 1],
    ['hello {', 2],
  ])
  await isEmpty(scene, url)
  const logged = log.find((entry) => entry.messageId === messageId)!
  assert.deepEqual([logged.receiveCount, logged.level], [1, 'warn'])
  for (const { message } of log) assert.doesNotMatch(message, /secret|hello/)
})

test('an unknown outcome deletes nothing', async (t) => {
  const scene = await sqsScene(t)
  const { queue, send, consumer } = scene
  const url = await queue()
  const busy = consumer({
    queueUrl: url,
    handle: ({ receiveCount }) =>
      receiveCount === 1 ? ({ outcome: 'aplied' } as never) : { some: 'answer of a service' },
  })
  const [returned, handled] = [next(busy, 'returned'), next(busy, 'handled')]
  await send(url, {})
  assert.equal((await returned).reason, 'threw')
  assert.equal((await handled).receiveCount, 2)
})
