// While a handler runs its message stays invisible to other consumers.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { HeldMessage } from '../../src/consumer/held.ts'
import { Visibility } from '../../src/consumer/visibility.ts'
import type { SqsClient, SqsConsumer } from '../../src/sqs/index.ts'
import { SqsQueue } from '../../src/sqs/queue.ts'
import { gate } from '../support/gate.ts'
import { movableTimers } from '../support/movable-clock.ts'
import { callProvider } from '../support/provider.ts'
import { isEmpty, next, nextEvents, sqsScene, through } from './scene.ts'
import { heldMessage } from './scripted.ts'

/** Of 30 s, and a little more: then it is time to extend. */
const A_THIRD_MS = 10_100

test('a handler that takes several timeouts is not disturbed, and its message is delivered once', async (t) => {
  const clock = movableTimers(t)
  const scene = await sqsScene(t)
  const { queue, send, consumer, provider } = scene
  const url = await queue()
  const [started, enough] = [gate(), gate()]
  const options = {
    queueUrl: url,
    handle: async ({ signal }: { signal: AbortSignal }) => {
      await callProvider(provider.url, 'slow')
      started.open()
      await enough.opened
      signal.throwIfAborted()
    },
  }
  const busy = [consumer(options), consumer(options)]
  await send(url, {})
  await started.opened
  for (let thirds = 0; thirds < 10; thirds++) {
    const extended = Promise.race(busy.map((one) => next(one, 'extended')))
    clock.pass(A_THIRD_MS)
    await extended
  }
  const handled = Promise.race(busy.map((one) => next(one, 'handled')))
  enough.open()
  assert.equal((await handled).receiveCount, 1)
  assert.equal(provider.happened(), 1)
  assert.equal(sum(busy, 'received'), 1)
  await isEmpty(scene, url)
})

test('an extension refused for one message is repeated, and the others have theirs', async (t) => {
  const clock = movableTimers(t)
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
  const [all, enough] = [gate(), gate()]
  let inside = 0
  const handle = () => {
    if (++inside === 4) all.open()
    return enough.opened
  }
  const busy = consumer({ queueUrl: url, handle }, client)
  const problem = next(busy, 'problem')
  await sendMany(url, [1, 2, 3, 4])
  await all.opened
  for (let thirds = 0; thirds < 5; thirds++) {
    const extended = nextEvents(busy, 'extended', 4)
    clock.pass(A_THIRD_MS)
    await extended
  }
  assert.equal((await problem).doing, 'extending visibility')
  const handled = nextEvents(busy, 'handled', 4)
  enough.open()
  await handled
  assert.deepEqual([busy.counts().expired, busy.counts().redelivered], [0, 0])
  await isEmpty(scene, url)
})

test('a message that is no longer in flight for SQS expires at once', async (t) => {
  const clock = movableTimers(t)
  const scene = await sqsScene(t)
  const { queue, send, consumer, sqs } = scene
  const url = await queue()
  const client = through(sqs.client, async (name, send) => {
    if (name !== 'ChangeMessageVisibilityBatch') return send()
    return { Failed: [{ Id: '0', Code: 'MessageNotInflight', SenderFault: true }] }
  })
  const [started, aborted] = [gate(), gate()]
  const busy = consumer(
    {
      queueUrl: url,
      concurrency: 1,
      handle: async ({ signal }) => {
        signal.addEventListener('abort', aborted.open)
        started.open()
        await aborted.opened
      },
    },
    client,
  )
  const [expired, handled] = [next(busy, 'expired'), next(busy, 'handled')]
  await send(url, {})
  await started.opened
  clock.pass(A_THIRD_MS)
  await expired
  assert.equal((await handled).deleted, false)
})

function sum(consumers: readonly SqsConsumer[], what: 'received'): number {
  return consumers.reduce((total, consumer) => total + consumer.counts()[what], 0)
}

test('messages at the end of a long poll are extended before they are handled, and dropped if refused', async (t) => {
  const asked: number[] = []
  const expired: string[] = []
  const client = through({} as SqsClient, async (_, __, { input }) => {
    asked.push(input.Entries!.length)
    return { Successful: [{ Id: '0' }], Failed: [{ Id: '1', Code: 'MessageNotInflight', SenderFault: true }] }
  })
  const visibility = new Visibility(new SqsQueue(client, 'http://localhost/q'), 30_000, 3_600_000, {
    extended: () => {},
    expired: ({ delivery: { id } }) => expired.push(id),
    problem: (error) => assert.fail(String(error)),
  })
  t.after(() => visibility.stop())
  const receivedAgo = (ms: number) => ['a', 'b'].map((id) => heldMessage(id, performance.now() - ms, 30_000))
  const gone = (messages: readonly HeldMessage[]) =>
    messages.filter(({ isGone }) => isGone).map(({ delivery }) => delivery.id)
  const late = receivedAgo(20_000) // Less than a third is certain.
  await visibility.hold(late)
  assert.deepEqual([asked, expired, gone(late)], [[2], ['b'], ['b']])
  const early = receivedAgo(1_000)
  await visibility.hold(early)
  assert.deepEqual([asked.length, gone(early)], [1, []])
})
