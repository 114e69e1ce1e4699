// A consumer that stops receives no more, lets its handlers end, and returns the other messages.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { StoppingError } from '../../src/core/errors.ts'
import { inTwoPhases } from '../../src/sqs/index.ts'
import { gate } from '../support/gate.ts'
import { until } from '../support/until.ts'
import { createSummaries, summaries, summary } from '../tables/summaries.ts'
import { isEmpty, next, nextEvents, silence, sqsScene, through } from './scene.ts'
import { message, refusal, STANDARD, scripted, settled } from './scripted.ts'

test('handlers that end within the grace period are handled, and nothing is received any more', async (t) => {
  const scene = await sqsScene(t)
  const { sqs, queue, sendMany, send, consumer, depth } = scene
  const url = await queue()
  const sent: string[] = []
  const client = through(sqs.client, (name, send) => {
    sent.push(name)
    return send()
  })
  const [all, go] = [gate(), gate()]
  let inside = 0
  const handle = () => {
    if (++inside === 3) all.open()
    return go.opened
  }
  await sendMany(url, [1, 2, 3])
  const busy = consumer({ queueUrl: url, concurrency: 3, handle }, client)
  await all.opened
  const receives = sent.filter((name) => name === 'ReceiveMessage').length
  const handled = nextEvents(busy, 'handled', 3)
  const stopped = busy.stop()
  await send(url, 4)
  go.open()
  assert.ok((await handled).every(({ deleted }) => deleted))
  await stopped
  assert.equal(sent.filter((name) => name === 'ReceiveMessage').length, receives)
  assert.deepEqual(await depth(url), { visible: 1, inFlight: 0 })
})

test('a stop aborts the long poll', async (t) => {
  const scene = await sqsScene(t)
  const { sqs, queue, consumer } = scene
  const url = await queue()
  const polling = gate()
  let hungUp: AbortSignal | undefined
  const client = through(sqs.client, (_, __, ___, signal) => {
    hungUp = signal
    polling.open()
    return silence(signal)
  })
  const busy = consumer({ queueUrl: url, handle: () => {} }, client)
  await polling.opened
  const stopped = busy.stop()
  assert.equal(hungUp!.aborted, true)
  await stopped
  assert.equal(busy.counts().problem, 0)
})

test('messages of a poll that was aborted too late are returned, and not handled', async (t) => {
  const [polling, answer] = [gate(), gate()]
  const { start, did } = scripted([message('a1', 'a'), message('a2', 'a'), message('b1', 'b')], {
    ReceiveMessage: async (_, usual) => {
      polling.open()
      await answer.opened
      return usual()
    },
  })
  const consumer = start(t, { handle: () => assert.fail('it is stopping') })
  await polling.opened
  const returned = nextEvents(consumer, 'returned', 3)
  const stopped = consumer.stop()
  answer.open()
  assert.ok(
    (await returned).every(({ reason, delayMs, confirmed }) => reason === 'stopping' && delayMs === 0 && confirmed),
  )
  await stopped
  assert.deepEqual(did.toSorted(), ['a1 in 0 s', 'a2 in 0 s', 'b1 in 0 s'])
})

test('messages that wait for their turn are returned while the one before them ends', async (t) => {
  const [started, mayEnd] = [gate(), gate()]
  const { start, did } = scripted(['a1', 'a2', 'a3'].map((id) => message(id, 'a')))
  const consumer = start(t, {
    handle: ({ id }) => {
      assert.equal(id, 'a1')
      started.open()
      return mayEnd.opened
    },
  })
  await started.opened
  const [returned, handled] = [nextEvents(consumer, 'returned', 2), next(consumer, 'handled')]
  const stopped = consumer.stop()
  assert.deepEqual(
    (await returned).map(({ messageId, reason }) => [messageId, reason]),
    [
      ['a3', 'stopping'],
      ['a2', 'stopping'],
    ],
  )
  mayEnd.open()
  assert.equal((await handled).deleted, true)
  await stopped
  assert.deepEqual(did, ['a3 in 0 s', 'a2 in 0 s', 'delete a1'])
})

test('a second stop() with no grace ends the wait of the first', async (t) => {
  const started = gate()
  const consumer = scripted([message('m')]).start(t, {
    queueUrl: STANDARD,
    grace: '1h',
    handle: ({ signal }) => {
      started.open()
      return silence(signal)
    },
  })
  await started.opened
  const returned = next(consumer, 'returned')
  const stopped = consumer.stop()
  await consumer.stop({ grace: 0 })
  assert.equal((await returned).reason, 'stopping')
  await stopped
})

test('after the grace period handlers are aborted, and their messages are visible at once', async (t) => {
  const scene = await sqsScene(t)
  const { queue, send, consumer, receive } = scene
  const url = await queue()
  const started = gate()
  let reason: unknown
  const busy = consumer({
    queueUrl: url,
    concurrency: 1,
    handle: ({ signal }) => {
      started.open()
      return new Promise((_, reject) =>
        signal.addEventListener('abort', () => {
          reason = signal.reason
          reject(signal.reason)
        }),
      )
    },
  })
  const messageId = await send(url, {})
  await started.opened
  const returned = next(busy, 'returned')
  await busy.stop({ grace: 0 })
  assert.ok(reason instanceof StoppingError && reason.message.startsWith('The consumer is stopping'))
  assert.deepEqual([(await returned).reason, (await returned).delayMs], ['stopping', 0])
  const [message] = await receive(url, 60)
  assert.deepEqual([message!.MessageId, message!.Attributes!.ApproximateReceiveCount], [messageId, '2'])
})

test('a handler that ignores its signal loses its message, and cannot delete it', async (t) => {
  const scene = await sqsScene(t)
  const { sqs, queue, send, consumer, receive } = scene
  const url = await queue()
  const sent: string[] = []
  const client = through(sqs.client, (name, send) => {
    sent.push(name)
    return send()
  })
  const [started, late] = [gate(), gate()]
  const handle = () => {
    started.open()
    return late.opened.then(() => ({ outcome: 'applied' as const }))
  }
  const busy = consumer({ queueUrl: url, concurrency: 1, handle }, client)
  const messageId = await send(url, {})
  await started.opened
  await busy.stop({ grace: 0 })
  const [message] = await receive(url, 60)
  assert.equal(message!.MessageId, messageId)
  const handled = next(busy, 'handled')
  late.open()
  assert.equal((await handled).deleted, false)
  assert.ok(!sent.includes('DeleteMessageBatch'))
})

test('in two phases an effect that is aborted by a stop releases its row, and no attempt is spent', async (t) => {
  const scene = await sqsScene(t)
  const { db, queue, send, consumer } = scene
  await createSummaries(db, 1)
  const url = await queue()
  const started = gate()
  const busy = consumer<{ id: number }>({
    queueUrl: url,
    concurrency: 1,
    handle: inTwoPhases(summaries, db.pool, {
      id: ({ body }) => body.id,
      effect: (_, { signal }) => {
        started.open()
        return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
      },
    }),
  })
  await send(url, { id: 1 })
  await started.opened
  const returned = next(busy, 'returned')
  await busy.stop({ grace: 0 })
  assert.deepEqual([(await returned).reason, (await returned).delayMs], ['stopping', 0])
  // It is waited for at most a second, and on a busy machine may still be running.
  await until('the row is given back', async () => (await summary(db, 1)).status === 'pending')
  assert.equal((await summary(db, 1)).attempt_count, 0)
  const other = consumer<{ id: number }>({
    queueUrl: url,
    handle: inTwoPhases(summaries, db.pool, { id: ({ body }) => body.id, effect: async () => ({ result: 'done' }) }),
  })
  assert.equal((await next(other, 'handled')).receiveCount, 2)
  await isEmpty(scene, url)
})

test('a function that returns nothing when it is aborted has not handled its message', async (t) => {
  const { start, did } = scripted([message('1')])
  const started = gate()
  const consumer = start(t, {
    queueUrl: STANDARD,
    handle: ({ signal }) => {
      started.open()
      return new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()))
    },
  })
  await started.opened
  await consumer.stop({ grace: 0 })
  assert.deepEqual(did, ['1 in 0 s'])
})

for (const [what, error, times] of [
  ['no answer', Object.assign(new Error('socket hang up'), { code: 'ECONNRESET' }), 1],
  ['an answer that it is too busy', refusal('ThrottlingException'), 2],
  ['the same in other words', refusal('RequestThrottled', 503), 2],
] as const) {
  test(`a return with ${what} is repeated only if no other consumer can have the message`, async (t) => {
    let asked = 0
    const { start, all } = scripted([message('1')], {
      ChangeMessageVisibilityBatch: (_, usual) => {
        if (++asked > 1) return usual()
        throw error
      },
    })
    const consumer = start(t, { queueUrl: STANDARD, handle: () => ({ outcome: 'again', after: 0 }) })
    assert.equal((await next(consumer, 'returned')).confirmed, times === 2)
    await settled()
    assert.equal(all('ChangeMessageVisibilityBatch').length, times)
  })
}
