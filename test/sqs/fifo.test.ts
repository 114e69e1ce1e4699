// FIFO queues: messages of a group one at a time and in order, also when one of them fails.
//
// The emulator gives out one message of a group at a time, AWS up to ten. So what happens to those behind a failure is
// tested with a script in place of the queue.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { z } from 'zod'
import { type SqsClient, SqsConsumer, type SqsConsumerOptions } from '../../src/sqs/index.ts'
import { inTime, lastFirst, type Undo } from '../support/worker.ts'
import { gate, isEmpty, next, silence, sqsScene, through, told } from './scene.ts'

const body = z.string()

for (const onGroupFailure of ['stop', 'skip'] as const) {
  test(`a message that fails once, ${onGroupFailure}: its group waits for it, others do not`, async (t) => {
    const scene = await sqsScene(t)
    const { queue, send, consumer } = scene
    const url = await queue({ fifo: true })
    for (const [group, text] of [
      ['a', 'a1'],
      ['a', 'a2'],
      ['b', 'b1'],
      ['a', 'a3'],
      ['b', 'b2'],
    ] as const) {
      await send(url, JSON.stringify(text), { group })
    }
    const done: string[] = []
    const busy = consumer({
      queueUrl: url,
      body,
      onGroupFailure,
      handle: ({ body, receiveCount }) => {
        if (body === 'a1' && receiveCount === 1) throw new Error('on purpose')
        done.push(body)
      },
    })
    await told(busy, 'handled', 5)
    assert.deepEqual(done, ['b1', 'b2', 'a1', 'a2', 'a3'])
    await isEmpty(scene, url)
  })
}

/** A FIFO queue that delivers these at once, each a group and a body, and notes what is done to them. */
function scripted(messages: readonly (readonly [group: string, text: string])[]) {
  const did: string[] = []
  const deletes = { mayEnd: Promise.resolve() as Promise<unknown>, refuse: new Set<string>() }
  const extensions = { refuse: new Set<string>() }
  const receive = { takes: () => {} }
  let isFirst = true
  const client = through({} as SqsClient, async (name, _, { input }, signal) => {
    if (name === 'ReceiveMessage') {
      if (!isFirst) return silence(signal)
      isFirst = false
      receive.takes()
      return {
        Messages: messages.map(([group, text]) => ({
          MessageId: text,
          ReceiptHandle: text,
          Body: JSON.stringify(text),
          Attributes: { MessageGroupId: group, ApproximateReceiveCount: '1' },
        })),
      }
    }
    const entries = input.Entries! as readonly { Id: string; ReceiptHandle: string; VisibilityTimeout?: number }[]
    if (name === 'DeleteMessageBatch') await deletes.mayEnd
    const { refuse } = name === 'DeleteMessageBatch' ? deletes : extensions
    const refused = entries.filter(({ ReceiptHandle }) => refuse.has(ReceiptHandle))
    for (const entry of entries.filter((candidate) => !refused.includes(candidate))) {
      const { ReceiptHandle, VisibilityTimeout } = entry
      did.push(name === 'DeleteMessageBatch' ? `delete ${ReceiptHandle}` : `${ReceiptHandle} in ${VisibilityTimeout} s`)
    }
    return {
      Successful: entries.filter((candidate) => !refused.includes(candidate)),
      Failed: refused.map(({ Id }) => ({ Id, Code: 'ReceiptHandleIsInvalid', SenderFault: true })),
    }
  })
  const start = (t: Undo, options: Omit<SqsConsumerOptions<string>, 'queueUrl'>): SqsConsumer<string> => {
    const consumer = new SqsConsumer(client, {
      queueUrl: 'http://localhost/q.fifo',
      body,
      signals: [],
      log: () => {},
      ...options,
    })
    void consumer.run()
    t.after(() => consumer.stop({ grace: 0 }))
    return consumer
  }
  return { did, deletes, extensions, receive, start }
}

const THREE_AND_ONE = [
  ['a', 'a1'],
  ['a', 'a2'],
  ['b', 'b1'],
  ['a', 'a3'],
] as const

test('stop: those behind a failure are handed back at once, the last one first, and none of them has started', async (t) => {
  const { did, start } = scripted(THREE_AND_ONE)
  const started: string[] = []
  const consumer = start(lastFirst(t), {
    handle: ({ body }) => {
      started.push(body)
      if (body === 'a1') throw new Error('on purpose')
    },
  })
  const [returned] = await Promise.all([told(consumer, 'returned', 3), next(consumer, 'handled')])
  assert.deepEqual(started.sort(), ['a1', 'b1'])
  assert.deepEqual(
    returned.map(({ messageId, reason, delayMs }) => [messageId, reason, delayMs]),
    [
      ['a1', 'threw', 1_000],
      ['a3', 'group', 0],
      ['a2', 'group', 0],
    ],
  )
  assert.deepEqual(
    did.filter((what) => what.startsWith('a')),
    ['a1 in 1 s', 'a3 in 0 s', 'a2 in 0 s'],
  )
})

test('skip: those behind a failure are handled, one after the other', async (t) => {
  const { did, start } = scripted(THREE_AND_ONE)
  const consumer = start(lastFirst(t), {
    onGroupFailure: 'skip',
    handle: ({ body }) => {
      if (body === 'a1') throw new Error('on purpose')
    },
  })
  await Promise.all([next(consumer, 'returned'), told(consumer, 'handled', 3)])
  assert.deepEqual(
    did.filter((what) => what.includes('a')),
    ['a1 in 1 s', 'delete a2', 'delete a3'],
  )
})

test('the next of a group starts when the delete of the one before it is known', async (t) => {
  const { deletes, start } = scripted(THREE_AND_ONE)
  const [mayEnd, b1] = [gate(), gate()]
  deletes.mayEnd = mayEnd.opened
  const started: string[] = []
  const consumer = start(lastFirst(t), {
    handle: ({ body }) => {
      started.push(body)
      if (body === 'b1') b1.open()
    },
  })
  await inTime(b1.opened, 'b1 did not start')
  for (let turn = 0; turn < 10; turn++) await new Promise(setImmediate)
  assert.deepEqual(started, ['a1', 'b1'])
  const handled = told(consumer, 'handled', 4)
  mayEnd.open()
  await handled
  assert.deepEqual(started, ['a1', 'b1', 'a2', 'a3'])
})

test('stop: after a delete that failed for good the rest of the group is handed back', async (t) => {
  const { deletes, start } = scripted(THREE_AND_ONE)
  deletes.refuse.add('a1')
  const started: string[] = []
  const consumer = start(lastFirst(t), { handle: ({ body }) => void started.push(body) })
  const [returned, handled] = await Promise.all([told(consumer, 'returned', 2), told(consumer, 'handled', 2)])
  assert.deepEqual(
    returned.map(({ messageId }) => messageId),
    ['a3', 'a2'],
  )
  assert.deepEqual(handled.map(({ messageId, deleted }) => [messageId, deleted]).sort(), [
    ['a1', false],
    ['b1', true],
  ])
  assert.deepEqual(started, ['a1', 'b1'])
})

for (const onGroupFailure of ['stop', 'skip'] as const) {
  test(`a late receive, of which one message cannot be kept, ${onGroupFailure}: its group goes no further, or does`, async (t) => {
    const { did, extensions, receive, start } = scripted(THREE_AND_ONE)
    const now = performance.now.bind(performance)
    let late = 0
    t.mock.method(performance, 'now', () => now() + late)
    receive.takes = () => {
      late += 20_000 // Of thirty.
    }
    extensions.refuse.add('a1')
    const consumer = start(lastFirst(t), { onGroupFailure, handle: () => {} })
    const expired = next(consumer, 'expired')
    const isStop = onGroupFailure === 'stop'
    await Promise.all([told(consumer, 'handled', isStop ? 1 : 3), ...(isStop ? [told(consumer, 'returned', 2)] : [])])
    assert.equal((await expired).messageId, 'a1')
    assert.deepEqual(
      did.filter((what) => !what.endsWith('30 s') && what !== 'delete b1'),
      isStop ? ['a3 in 0 s', 'a2 in 0 s'] : ['delete a2', 'delete a3'],
    )
  })
}

test('a failure that is recorded in the row was deleted, so the group goes on', async (t) => {
  const { did, start } = scripted(THREE_AND_ONE)
  const consumer = start(lastFirst(t), {
    handle: ({ body }) => (body === 'a1' ? { outcome: 'failed', error: new Error('in the row') } : undefined),
  })
  await Promise.all([next(consumer, 'failed'), told(consumer, 'handled', 3)])
  assert.deepEqual(
    did.filter((what) => what.includes('a') && what !== 'delete b1'),
    ['delete a1', 'delete a2', 'delete a3'],
  )
})
