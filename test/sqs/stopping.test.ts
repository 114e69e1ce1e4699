// A consumer that stops receives no more, lets its handlers end, and hands back what does not.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { StoppingError } from '../../src/index.ts'
import { inTwoPhases } from '../../src/sqs/index.ts'
import { createSummaries, summaries, summary } from '../transitions/summaries.ts'
import { gate, isEmpty, next, silence, sqsScene, through, told } from './scene.ts'

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
  const handled = told(busy, 'handled', 3)
  const stopped = busy.stop()
  await send(url, 4)
  go.open()
  assert.ok((await handled).every(({ deleted }) => deleted))
  await stopped
  assert.equal(sent.filter((name) => name === 'ReceiveMessage').length, receives)
  assert.deepEqual(await depth(url), { visible: 1, inFlight: 0 })
})

test('the long poll is hung up on', async (t) => {
  const scene = await sqsScene(t)
  const { sqs, queue, consumer } = scene
  const url = await queue()
  const polling = gate()
  const client = through(sqs.client, (_, __, ___, signal) => {
    polling.open()
    return silence(signal)
  })
  const busy = consumer({ queueUrl: url, wait: '20s', handle: () => {} }, client)
  await polling.opened
  await busy.stop()
  assert.equal(busy.counts().problem, 0)
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
  assert.ok(reason instanceof StoppingError)
  assert.deepEqual([(await returned).reason, (await returned).delayMs], ['stopping', 0])
  const [message] = await receive(url, 60)
  assert.deepEqual([message!.MessageId, message!.Attributes!.ApproximateReceiveCount], [messageId, '2'])
})

test('a handler that does not heed its signal loses its message, and cannot delete it any more', async (t) => {
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
    return late.opened
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

test('in two phases an effect that is told to stop gives its row back, and no attempt is spent', async (t) => {
  const scene = await sqsScene(t)
  const { db, queue, send, consumer } = scene
  await createSummaries(db, 1)
  const url = await queue()
  const started = gate()
  const busy = consumer<{ id: number }>({
    queueUrl: url,
    handle: inTwoPhases(
      summaries,
      db.pool,
      ({ body }) => body.id,
      (_, { signal }) => {
        started.open()
        return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
      },
    ),
  })
  await send(url, { id: 1 })
  await started.opened
  const returned = next(busy, 'returned')
  await busy.stop({ grace: 0 })
  assert.deepEqual([(await returned).reason, (await returned).delayMs], ['stopping', 0])
  const { status, attempt_count } = await summary(db, 1)
  assert.deepEqual([status, attempt_count], ['pending', 0])
  const other = consumer<{ id: number }>({
    queueUrl: url,
    handle: inTwoPhases(
      summaries,
      db.pool,
      ({ body }) => body.id,
      async () => ({ result: 'done' }),
    ),
  })
  assert.equal((await next(other, 'handled')).receiveCount, 2)
  await isEmpty(scene, url)
})
