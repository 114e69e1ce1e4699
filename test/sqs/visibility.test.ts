// While a handler runs nobody else sees its message; and when that cannot be had, what each way of handling makes of it.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { z } from 'zod'
import { HeldMessage } from '../../src/sqs/held.ts'
import { inOneUpdate, inTwoPhases, type SqsClient, type SqsConsumer } from '../../src/sqs/index.ts'
import { SqsQueue } from '../../src/sqs/queue.ts'
import { Visibility } from '../../src/sqs/visibility.ts'
import { callProvider } from '../support/provider.ts'
import { createSummaries, summaries, summary } from '../transitions/summaries.ts'
import { gate, isEmpty, next, type SqsScene, sqsScene, through, told } from './scene.ts'

const body = z.object({ id: z.number() })
/** So short that a message really comes again. */
const BRIEF = { visibility: '1s' } as const

/** A client whose extensions all fail, and what else was sent through it. */
function withoutHeartbeat({ sqs }: SqsScene) {
  const sent: string[] = []
  const client = through(sqs.client, (name, send) => {
    sent.push(name)
    return name === 'ChangeMessageVisibilityBatch' ? Promise.reject(new Error('unreachable')) : send()
  })
  return { client, sent }
}

test('a handler that takes several timeouts is not disturbed, and its message is delivered once', async (t) => {
  const scene = await sqsScene(t)
  const { queue, send, consumer, provider } = scene
  const url = await queue()
  const enough = gate()
  const options = {
    ...BRIEF,
    queueUrl: url,
    handle: async ({ signal }: { signal: AbortSignal }) => {
      await callProvider(provider.url, 'slow')
      await enough.opened
      signal.throwIfAborted()
    },
  }
  const busy = [consumer(options), consumer(options)]
  await send(url, {})
  // A third of the timeout each: ten of them are three timeouts.
  await Promise.race(busy.map((one) => told(one, 'extended', 10)))
  const handled = Promise.race(busy.map((one) => next(one, 'handled')))
  enough.open()
  assert.equal((await handled).receiveCount, 1)
  assert.equal(provider.happened(), 1)
  assert.equal(sum(busy, 'received'), 1)
  await isEmpty(scene, url)
})

test('heartbeat lost, a function: it is aborted, another delivery does the work, and the stale receipt deletes nothing', async (t) => {
  const scene = await sqsScene(t)
  const { queue, send, consumer, provider } = scene
  const url = await queue()
  const { client, sent } = withoutHeartbeat(scene)
  const aborted = gate()
  const late = gate()
  const slow = consumer(
    {
      ...BRIEF,
      queueUrl: url,
      concurrency: 1,
      handle: async ({ signal }) => {
        signal.addEventListener('abort', aborted.open)
        await late.opened // It does not heed its signal, and returns as if all were well.
      },
    },
    client,
  )
  const [expired, handledLate] = [next(slow, 'expired'), next(slow, 'handled')]
  const messageId = await send(url, {})
  assert.equal((await expired).messageId, messageId)
  await aborted.opened
  const other = consumer({ queueUrl: url, handle: () => callProvider(provider.url, 'work') })
  const [redelivered, handled] = [next(other, 'redelivered'), next(other, 'handled')]
  assert.deepEqual([(await redelivered).receiveCount, (await handled).deleted], [2, true])
  late.open()
  assert.equal((await handledLate).deleted, false)
  assert.ok(!sent.includes('DeleteMessageBatch'), sent.join())
  assert.equal(provider.happened(), 1)
  await isEmpty(scene, url)
})

test('heartbeat lost, in two phases: the effect goes on and happens once, since whoever gets the message finds the claim', async (t) => {
  const scene = await sqsScene(t)
  const { db, queue, send, consumer, provider } = scene
  await createSummaries(db, 1)
  const url = await queue()
  const late = gate()
  let wasAborted: boolean | undefined
  const handle = inTwoPhases<{ id: number }, 'result' | 'completed_at'>(
    summaries,
    db.pool,
    ({ body }) => body.id,
    async (_, { signal }) => {
      await callProvider(provider.url, 'summary')
      await late.opened
      wasAborted = signal.aborted
      return { result: 'done' }
    },
  )
  const slow = consumer({ ...BRIEF, queueUrl: url, body, concurrency: 1, handle }, withoutHeartbeat(scene).client)
  const [expired, handledLate] = [next(slow, 'expired'), next(slow, 'handled')]
  await send(url, { id: 1 })
  await expired
  const other = consumer({ queueUrl: url, body, handle })
  assert.equal((await next(other, 'already_handled')).deleted, true)
  assert.equal((await summary(db, 1)).status, 'processing')
  late.open()
  assert.equal((await handledLate).deleted, false)
  assert.equal((await summary(db, 1)).status, 'completed')
  assert.deepEqual([wasAborted, provider.happened()], [false, 1])
  await isEmpty(scene, url)
})

test('heartbeat lost, in one update: the work is done twice, the row is changed once, and no failure is recorded', async (t) => {
  const scene = await sqsScene(t)
  const { db, queue, send, consumer, provider } = scene
  await createSummaries(db, 1)
  const url = await queue()
  const slowWork = inOneUpdate<{ id: number }, typeof ARROWS, 'pending', 'result' | 'completed_at'>(
    summaries,
    db.pool,
    {
      id: ({ body }) => body.id,
      from: 'pending',
      to: 'completed',
      work: async ({ signal }) => {
        await callProvider(provider.url, 'summary')
        await new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
        return { result: 'never' }
      },
    },
  )
  const slow = consumer(
    { ...BRIEF, queueUrl: url, body, concurrency: 1, handle: slowWork },
    withoutHeartbeat(scene).client,
  )
  const stopped = new Promise((resolve) => slow.on('expired', () => resolve(slow.stop()))) // Or it would get it again.
  await send(url, { id: 1 })
  await stopped
  assert.deepEqual([(await summary(db, 1)).status, (await summary(db, 1)).attempt_count], ['pending', 0])
  const other = consumer({
    queueUrl: url,
    body,
    handle: inOneUpdate(summaries, db.pool, {
      id: ({ body }) => body.id,
      from: 'pending',
      to: 'completed',
      work: async () => ({ result: JSON.stringify(await callProvider(provider.url, 'summary')) }),
    }),
  })
  assert.equal((await next(other, 'handled')).receiveCount, 2)
  const { status, attempt_count } = await summary(db, 1)
  assert.deepEqual([status, attempt_count, provider.happened()], ['completed', 0, 2])
  await isEmpty(scene, url)
})

const ARROWS = { pending: ['completed'] } as const

test('an extension that is refused for one message is asked for again, and the others have theirs', async (t) => {
  const scene = await sqsScene(t)
  const { queue, sendMany, consumer, sqs } = scene
  const url = await queue()
  let refused = 0
  const client = through(sqs.client, async (name, send) => {
    const answer = (await send()) as { Successful?: { Id: string }[] }
    if (name !== 'ChangeMessageVisibilityBatch' || refused++ > 0) return answer
    const [first, ...others] = answer.Successful!
    const failed = { Id: first!.Id, Code: 'InternalError', SenderFault: false }
    return { Successful: others, Failed: [failed] }
  })
  const enough = gate()
  const busy = consumer({ queueUrl: url, visibility: '2s', handle: () => enough.opened }, client)
  const [extended, problem] = [told(busy, 'extended', 20), next(busy, 'problem')]
  await sendMany(url, [1, 2, 3, 4])
  assert.equal((await problem).doing, 'extending visibility')
  await extended
  const handled = told(busy, 'handled', 4)
  enough.open()
  await handled
  assert.deepEqual([busy.counts().expired, busy.counts().redelivered], [0, 0])
  await isEmpty(scene, url)
})

test('a message that SQS no longer counts as ours is given up at once', async (t) => {
  const scene = await sqsScene(t)
  const { queue, send, consumer, sqs } = scene
  const url = await queue()
  const client = through(sqs.client, async (name, send) => {
    if (name !== 'ChangeMessageVisibilityBatch') return send()
    return { Failed: [{ Id: '0', Code: 'MessageNotInflight', SenderFault: true }] }
  })
  const aborted = gate()
  const busy = consumer(
    {
      queueUrl: url,
      visibility: '2s',
      concurrency: 1,
      handle: async ({ signal }) => {
        signal.addEventListener('abort', aborted.open)
        await aborted.opened
      },
    },
    client,
  )
  const [expired, handled] = [next(busy, 'expired'), next(busy, 'handled')]
  await send(url, {})
  await expired
  assert.equal((await handled).deleted, false)
})

function sum(consumers: readonly SqsConsumer[], what: 'received'): number {
  return consumers.reduce((total, consumer) => total + consumer.counts()[what], 0)
}

test('what comes at the end of a long poll is extended before anything is done with it, and dropped when that is refused', async (t) => {
  const asked: number[] = []
  const expired: string[] = []
  const client = through({} as SqsClient, async (_, __, { input }) => {
    asked.push(input.Entries!.length)
    return { Successful: [{ Id: '0' }], Failed: [{ Id: '1', Code: 'MessageNotInflight', SenderFault: true }] }
  })
  const visibility = new Visibility(new SqsQueue(client, 'http://localhost/q'), 30_000, 3_600_000, {
    extended: () => {},
    expired: ({ id }) => expired.push(id),
    problem: (error) => assert.fail(String(error)),
  })
  t.after(() => visibility.stop())
  const receivedAgo = (ms: number) =>
    ['a', 'b'].map((id) => new HeldMessage({ MessageId: id, ReceiptHandle: id }, performance.now() - ms, 30_000))
  const gone = (messages: readonly HeldMessage[]) => messages.filter(({ isGone }) => isGone).map(({ id }) => id)
  const late = receivedAgo(20_000) // Less than a third is certain.
  await visibility.hold(late)
  assert.deepEqual([asked, expired, gone(late)], [[2], ['b'], ['b']])
  const early = receivedAgo(1_000)
  await visibility.hold(early)
  assert.deepEqual([asked.length, gone(early)], [1, []])
})
