// The emulator made to hand out a FIFO group as AWS does, and the faults that the proxy leaves out for such a queue.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import {
  ChangeMessageVisibilityCommand,
  DeleteMessageCommand,
  type Message,
  ReceiveMessageCommand,
  SendMessageBatchCommand,
  type SQSClient,
} from '@aws-sdk/client-sqs'
import { type FaultySqsOptions, startFaultySqs } from '../../tools/faulty-sqs.ts'
import { startSqs } from '../../tools/sqs.ts'
import { until } from '../support/until.ts'
import { lastFirst } from '../support/worker.ts'

/** A queue with these messages, each named by its group and its place in it. */
async function queueWith(t: TestContext, options: FaultySqsOptions, ...messages: string[]) {
  const undo = lastFirst(t)
  const sqs = await startSqs({ groupsTogether: true })
  undo.after(() => sqs.stop())
  const { client, ...proxy } = await startFaultySqs(sqs, options)
  undo.after(() => proxy.stop())
  const QueueUrl = await sqs.createQueue('orders.fifo')
  const Entries = messages.map((name) => ({
    Id: name,
    MessageBody: name,
    MessageGroupId: name[0]!,
    MessageDeduplicationId: name,
  }))
  await sqs.client.send(new SendMessageBatchCommand({ QueueUrl, Entries }))
  return { client, QueueUrl, happened: proxy.happened }
}

type Place = { readonly client: SQSClient; readonly QueueUrl: string }

async function receive({ client, QueueUrl }: Place, most = 10, VisibilityTimeout = 30): Promise<Message[]> {
  const { Messages = [] } = await client.send(
    new ReceiveMessageCommand({
      QueueUrl,
      MaxNumberOfMessages: most,
      VisibilityTimeout,
      MessageSystemAttributeNames: ['MessageGroupId'],
    }),
  )
  return Messages
}

function handBack({ client, QueueUrl }: Place, { ReceiptHandle }: Message): Promise<unknown> {
  return client.send(new ChangeMessageVisibilityCommand({ QueueUrl, ReceiptHandle, VisibilityTimeout: 0 }))
}

const names = (messages: readonly Message[]) => messages.map(({ Body }) => Body!)
const ofGroup = (group: string, messages: readonly Message[]) =>
  names(messages)
    .filter((name) => name.startsWith(group))
    .join(' ')

test('several of a group come at once, in order, and no more of it while one of them is in flight', async (t) => {
  const place = await queueWith(t, {}, 'a1', 'a2', 'b1', 'a3', 'a4')
  const first = await receive(place, 4)
  assert.deepEqual([ofGroup('a', first), ofGroup('b', first)], ['a1 a2 a3', 'b1'])
  assert.deepEqual(await receive(place), [])
  // Returned in the wrong order, they are redelivered in the right one.
  const [a1, a2, a3] = first.filter(({ Body }) => Body!.startsWith('a'))
  await handBack(place, a2!)
  await handBack(place, a3!)
  assert.deepEqual(await receive(place), [])
  await handBack(place, a1!)
  const again = await receive(place, 10, 1)
  assert.deepEqual(names(again), ['a1', 'a2', 'a3', 'a4'])
  // Not returned: redelivered in order as well.
  let late: Message[] = []
  await until('they are visible again', async () => {
    late = await receive(place)
    return late.length > 0
  })
  assert.deepEqual(names(late), ['a1', 'a2', 'a3', 'a4'])
  const { client, QueueUrl } = place
  for (const { ReceiptHandle } of late) await client.send(new DeleteMessageCommand({ QueueUrl, ReceiptHandle }))
  assert.deepEqual(await receive(place), [])
})

test('reorder keeps each group in order, and duplicate does not apply to a FIFO queue', async (t) => {
  const all = ['a1', 'b1', 'a2', 'c1', 'b2', 'a3', 'c2', 'b3', 'a4', 'c3']
  const place = await queueWith(
    t,
    { seed: 3, faults: [{ fault: 'duplicate', times: 9 }, { fault: 'reorder' }] },
    ...all,
  )
  const messages = await receive(place)
  assert.deepEqual(names(messages).toSorted(), all.toSorted())
  for (const group of ['a1 a2 a3 a4', 'b1 b2 b3', 'c1 c2 c3']) assert.equal(ofGroup(group[0]!, messages), group)
  assert.deepEqual(await receive(place), [])
  assert.deepEqual([place.happened.duplicate, place.happened.reorder], [0, 1])
})
