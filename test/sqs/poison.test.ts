// Messages that can never be handled, or not yet: none is deleted silently, none is redelivered without backoff.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import pg from 'pg'
import { z } from 'zod'
import { Acknowledger } from '../../src/consumer/acknowledger.ts'
import { Cancel, Fatal, RetryAfter } from '../../src/index.ts'
import { inOneUpdate, inTwoPhases } from '../../src/sqs/index.ts'
import { startFaultyProxy } from '../../tools/faulty-proxy.ts'
import { gate } from '../support/gate.ts'
import { callProvider } from '../support/provider.ts'
import { until } from '../support/until.ts'
import { createSummaries, summaries, summary } from '../tables/summaries.ts'
import { isEmpty, next, nextEvents, redeliveringAfter, sqsScene, through } from './scene.ts'
import { message, STANDARD, scripted } from './scripted.ts'

const body = z.object({ id: z.number() })

const fails = () => {
  throw new Error('no')
}

test('not JSON, not of the schema, given up by its handler: a dead letter each, with its reason and all it had', async (t) => {
  const scene = await sqsScene(t)
  const { queue, send, consumer, receive, log } = scene
  const [url, dead] = [await queue(), await queue()]
  const busy = consumer({
    queueUrl: url,
    deadLetterQueueUrl: dead,
    body,
    handle: () => {
      throw new Fatal('never')
    },
  })
  for (const [text, reason] of [
    ['{ secret', 'not_json'],
    ['{"id":"secret"}', 'invalid_body'],
    ['null', 'invalid_body'],
    ['{"id":1}', 'fatal'],
  ] as const) {
    const buried = next(busy, 'dead_letter')
    const messageId = await send(url, text, { attributes: { trace: 'abc' } })
    const buriedAs = await buried
    assert.deepEqual([buriedAs.messageId, buriedAs.reason, buriedAs.deleted], [messageId, reason, true])
    const [letter] = await receive(dead, 60)
    assert.equal(letter!.Body, text)
    const { trace, 'leasehold.reason': noted } = letter!.MessageAttributes!
    assert.deepEqual([trace!.StringValue, noted!.StringValue], ['abc', reason])
  }
  await isEmpty(scene, url)
  for (const { message } of log) assert.doesNotMatch(message, /secret/)
})

test('a message with as many attributes as SQS accepts keeps them all, and its reason is in the log', async (t) => {
  const scene = await sqsScene(t)
  const { queue, send, consumer, receive } = scene
  const [url, dead] = [await queue(), await queue()]
  const busy = consumer({ queueUrl: url, deadLetterQueueUrl: dead, handle: () => {} })
  const buried = next(busy, 'dead_letter')
  await send(url, '{', { attributes: Object.fromEntries([...'abcdefghij'].map((name) => [name, 'x'])) })
  await buried
  const [letter] = await receive(dead, 60)
  assert.deepEqual(Object.keys(letter!.MessageAttributes!).sort(), [...'abcdefghij'])
})

test('without a dead-letter queue poison stays, hidden for the longest backoff, and nothing is deleted', async (t) => {
  const scene = await sqsScene(t)
  const { queue, send, consumer, depth } = scene
  const url = await queue()
  const busy = consumer({ queueUrl: url, handle: () => {} })
  const returned = next(busy, 'returned')
  await send(url, '{')
  const { reason, delayMs } = await returned
  assert.deepEqual([reason, delayMs], ['not_json', 900_000])
  assert.deepEqual(await depth(url), { visible: 0, inFlight: 1 })
  assert.equal(busy.counts().dead_letter, 0)
})

test('a dead letter that cannot be sent deletes nothing', async (t) => {
  const scene = await sqsScene(t)
  const { sqs, queue, send, consumer } = scene
  const [url, dead] = [await queue(), await queue()]
  let sends = 0
  const client = through(sqs.client, (name, send) => {
    if (name === 'SendMessage' && ++sends === 1) return Promise.reject(new Error('unreachable'))
    return send()
  })
  const busy = consumer({ queueUrl: url, deadLetterQueueUrl: dead, handle: () => {} }, client)
  const [returned, buried] = [next(busy, 'returned'), next(busy, 'dead_letter')]
  await send(url, '{')
  assert.equal((await returned).reason, 'dead_letter_not_sent')
  assert.equal((await buried).receiveCount, 2)
  await isEmpty(scene, url)
})

for (const [way, handle] of [
  ['in two phases', inTwoPhases<{ id: number }, never>],
  ['in one update', undefined],
] as const) {
  test(`a message before its row, ${way}: it is redelivered later, and nothing has happened until then`, async (t) => {
    const scene = await sqsScene(t)
    const { db, provider, sqs, queue, send, consumer } = scene
    await createSummaries(db, 0)
    const url = await queue()
    const rowIsThere = gate()
    const work = async () => void (await callProvider(provider.url, 'work'))
    const id = ({ body }: { body: { id: number } }) => body.id
    const inside = handle
      ? handle(summaries, db.pool, { id, effect: work as never })
      : inOneUpdate(summaries, db.pool, { id, from: 'pending', to: 'completed', work: work as never })
    const client = redeliveringAfter(sqs.client, rowIsThere.opened)
    const busy = consumer({ queueUrl: url, body, handle: inside }, client)
    const [returned, handled] = [next(busy, 'returned'), next(busy, 'handled')]
    await send(url, { id: 1 })
    const { reason, delayMs, rowId } = await returned
    assert.deepEqual([reason, delayMs, rowId, provider.happened()], ['row_not_found', 1_000, '1', 0])
    await db.pool.query('insert into summary (id) values (1)')
    rowIsThere.open()
    assert.equal((await handled).receiveCount, 2)
    const { status, attempt_count } = await summary(db, 1)
    assert.deepEqual([status, attempt_count, provider.happened()], ['completed', 0, 1])
    await isEmpty(scene, url)
  })
}

test('the backoff grows with each delivery, and a handler may ask for its own', async (t) => {
  const scene = await sqsScene(t)
  const { sqs, queue, send, consumer } = scene
  const url = await queue()
  // SQS counts the n-th delivery.
  const client = through(sqs.client, async (name, send) => {
    const answer = (await send()) as { Messages?: { Attributes: Record<string, string>; Body: string }[] }
    if (name === 'ReceiveMessage') {
      for (const { Attributes, Body } of answer.Messages ?? []) Attributes.ApproximateReceiveCount = Body
    }
    return answer
  })
  const busy = consumer(
    {
      queueUrl: url,
      body: z.number(),
      handle: ({ body }) => {
        if (body === 3) throw new RetryAfter('7s')
        return body === 4 ? { outcome: 'again', after: '9s' } : { outcome: 'not_found' }
      },
    },
    client,
  )
  // The first ones may be redelivered meanwhile.
  const delays = new Map<string, number>()
  busy.on('returned', ({ messageId, delayMs }) => delays.set(messageId, delayMs))
  const seconds: number[] = []
  for (const count of [1, 2, 3, 4, 5, 9, 30]) {
    const messageId = await send(url, count)
    await until('it is handed back', () => delays.has(messageId))
    seconds.push(delays.get(messageId)! / 1_000)
  }
  // A quarter is random: between 0.75 and 1 of 1, 2, 16, 256 and 900 seconds, rounded up.
  const [first, second, third, fourth, fifth, ninth, last] = seconds as [
    number,
    number,
    number,
    number,
    number,
    number,
    number,
  ]
  assert.deepEqual([first, second, third, fourth], [1, 2, 7, 9])
  assert.ok(fifth >= 12 && fifth <= 16 && ninth >= 192 && ninth <= 256 && last >= 675 && last <= 900, String(seconds))
})

test('a message reaches the dead letters of SQS when its row never comes, and not when its row has failed', async (t) => {
  const scene = await sqsScene(t)
  const { db, queue, send, consumer, receive, depth } = scene
  await createSummaries(db, 1)
  const dead = await queue()
  const url = await queue({ dead: { url: dead, after: 2 } })
  const busy = consumer({
    queueUrl: url,
    body,
    handle: inTwoPhases(summaries, db.pool, {
      id: ({ body }) => body.id,
      effect: async () => {
        throw new Error('no')
      },
    }),
  })
  const [returned, failed] = [nextEvents(busy, 'returned', 2), next(busy, 'failed')]
  await send(url, { id: 1 })
  await send(url, { id: 99 })
  await failed
  assert.deepEqual(
    (await returned).map(({ receiveCount, rowId }) => [receiveCount, rowId]),
    [
      [1, '99'],
      [2, '99'],
    ],
  )
  const [letter, ...others] = await receive(dead, 60)
  assert.equal(letter!.Body, '{"id":99}')
  await until('nothing is left in the queue', async () => (await depth(url)).inFlight === 0)
  assert.equal((await summary(db, 1)).status, 'error')
  assert.deepEqual([busy.counts().received, others], [3, []])
})

test('while the database is away messages are returned, their rows unchanged, and few are received', async (t) => {
  const scene = await sqsScene(t)
  const { db, undo, sqs, queue, sendMany, consumer } = scene
  await createSummaries(db, 20)
  const { hostname: host, port } = new URL(db.url)
  const proxy = await startFaultyProxy({ host, port: Number(port) })
  undo.after(() => proxy.stop())
  const pool = new pg.Pool({ connectionString: proxy.url(db.url), max: 5 })
  pool.on('error', () => {})
  undo.after(() => pool.end())
  const url = await queue()
  const asked: number[] = []
  const client = through(sqs.client, (name, send, { input }) => {
    if (name === 'ReceiveMessage') asked.push((input as { MaxNumberOfMessages?: number }).MaxNumberOfMessages!)
    return send()
  })
  proxy.refuse()
  const busy = consumer(
    {
      queueUrl: url,
      body,
      handle: inOneUpdate(summaries, pool, {
        id: ({ body }) => body.id,
        from: 'pending',
        to: 'completed',
        work: async () => ({ result: 'done' }),
      }),
    },
    client,
  )
  const [returned, handled] = [nextEvents(busy, 'returned', 11), nextEvents(busy, 'handled', 20)]
  await sendMany(
    url,
    [...new Array(20).keys()].map((n) => ({ id: n + 1 })),
  )
  assert.ok((await returned).every(({ reason }) => reason === 'database'))
  assert.ok(
    asked.slice(2).every((most) => most === 1),
    String(asked),
  )
  proxy.accept()
  await handled
  const { rows } = await db.pool.query(
    'select status, max(attempt_count) as most, count(*)::int from summary group by 1',
  )
  assert.deepEqual(rows, [{ status: 'completed', most: 0, count: 20 }])
  await isEmpty(scene, url)
})

test('a dead letter without a reason counts as thrown: nothing is lost, and its group goes on', async (t) => {
  const { start, did } = scripted([message('a1', 'a'), message('a2', 'a')])
  const noReason = { outcome: 'dead_letter' } as never
  const consumer = start(t, { onGroupFailure: 'skip', handle: ({ id }) => (id === 'a1' ? noReason : undefined) })
  const [returned, handled] = [next(consumer, 'returned'), next(consumer, 'handled')]
  assert.deepEqual([(await returned).reason, (await handled).messageId], ['threw', 'a2'])
  await until('nothing is held', () => consumer.held === 0)
  assert.deepEqual(did, ['a1 in 1 s', 'delete a2'])
})

test('an internal error while a message ends neither ends the process nor stops its group', async (t) => {
  t.mock.method(Acknowledger.prototype, 'return', () => Promise.reject(new Error('a mistake')))
  const { start } = scripted([message('a1', 'a'), message('a2', 'a')])
  const consumer = start(t, { onGroupFailure: 'skip', handle: ({ id }) => (id === 'a1' ? fails() : undefined) })
  const [problem, handled] = [next(consumer, 'problem'), next(consumer, 'handled')]
  assert.deepEqual([(await problem).doing, (await handled).messageId], ['handling', 'a2'])
  await until('nothing is held', () => consumer.held === 0)
  t.mock.restoreAll()
})

test('Cancel, thrown by a function: the message is no longer wanted, and deleted', async (t) => {
  const { start, did } = scripted([message('1')])
  const consumer = start(t, {
    queueUrl: STANDARD,
    handle: () => {
      throw new Cancel('withdrawn')
    },
  })
  await next(consumer, 'handled')
  assert.deepEqual(did, ['delete 1'])
})

test('a released message is redelivered after its backoff or its own delay', async (t) => {
  const { start, did } = scripted([message('1', undefined, 10), message('2', undefined, 10)])
  const consumer = start(t, {
    queueUrl: STANDARD,
    handle: ({ id }) => ({ outcome: 'released', ...(id === '1' ? {} : { delayMs: 7_000 }) }),
  })
  await nextEvents(consumer, 'returned', 2)
  const [first, second] = did.toSorted()
  assert.match(first!, /^1 in \d{3} s$/)
  assert.equal(second, '2 in 7 s')
})
