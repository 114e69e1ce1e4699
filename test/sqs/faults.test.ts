// The faults of the proxy in front of SQS, as the real SDK sees them.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  ChangeMessageVisibilityBatchCommand,
  ChangeMessageVisibilityCommand,
  DeleteMessageBatchCommand,
  DeleteMessageCommand,
  GetQueueAttributesCommand,
  type Message,
  ReceiveMessageCommand,
  SendMessageBatchCommand,
  SQSClient,
} from '@aws-sdk/client-sqs'
import { FAULTS } from '../../tools/faulty-sqs.ts'
import { randomFrom } from '../../tools/seeded-random.ts'
import { failureOf } from '../support/effects.ts'
import { gate } from '../support/gate.ts'
import { until } from '../support/until.ts'
import { type BehindProxy, queueBehindProxy } from './behind-proxy.ts'

const LOST = /ECONNRESET|socket hang up|aborted/

function send({ client, queueUrl }: BehindProxy, ...bodies: string[]) {
  const Entries = bodies.map((MessageBody, index) => ({ Id: `e${index}`, MessageBody }))
  return client.send(new SendMessageBatchCommand({ QueueUrl: queueUrl, Entries }))
}

async function receive({ client, queueUrl }: BehindProxy, options = {}): Promise<Message[]> {
  const { Messages = [] } = await client.send(
    new ReceiveMessageCommand({ QueueUrl: queueUrl, MaxNumberOfMessages: 10, ...options }),
  )
  return Messages
}

function deleteAll({ client, queueUrl }: BehindProxy, messages: readonly Message[]) {
  const Entries = messages.map(({ ReceiptHandle }, index) => ({ Id: `e${index}`, ReceiptHandle }))
  return client.send(new DeleteMessageBatchCommand({ QueueUrl: queueUrl, Entries }))
}

function hideFor({ client, queueUrl }: BehindProxy, messages: readonly Message[], VisibilityTimeout: number) {
  const Entries = messages.map(({ ReceiptHandle }, index) => ({ Id: `e${index}`, ReceiptHandle, VisibilityTimeout }))
  return client.send(new ChangeMessageVisibilityBatchCommand({ QueueUrl: queueUrl, Entries }))
}

/** How many messages there are, and how many of them are invisible, read without the proxy. */
async function counts({ direct, queueUrl }: BehindProxy): Promise<[visible: number, invisible: number]> {
  const { Attributes } = await direct.send(
    new GetQueueAttributesCommand({ QueueUrl: queueUrl, AttributeNames: ['All'] }),
  )
  return [Number(Attributes!.ApproximateNumberOfMessages), Number(Attributes!.ApproximateNumberOfMessagesNotVisible)]
}

const bodies = (messages: readonly Message[]) => messages.map(({ Body }) => Body!)
const letters = (n: number) => Array.from({ length: n }, (_, index) => String.fromCharCode(97 + index))

test('without a fault, everything passes as it is, and requests are counted', async (t) => {
  const behind = await queueBehindProxy(t)
  const { Successful } = await send(behind, 'a', 'b', 'ü — ✓')
  assert.deepEqual(
    Successful?.map(({ Id }) => Id),
    ['e0', 'e1', 'e2'],
  )
  const messages = await receive(behind)
  assert.deepEqual(bodies(messages), ['a', 'b', 'ü — ✓'])
  await hideFor(behind, messages.slice(0, 1), 0)
  await deleteAll(behind, messages.slice(1))
  await receive(behind)
  const { Failed = [] } = await deleteAll(behind, messages.slice(0, 1))
  assert.deepEqual(Failed, [], 'the handle is stale, and by itself the emulator says nothing')
  assert.deepEqual(await counts(behind), [0, 1])
  const missing = new ReceiveMessageCommand({ QueueUrl: `${behind.queueUrl}-not` })
  assert.match((await failureOf(behind.client.send(missing))).name, /QueueDoesNotExist/)
  assert.deepEqual(Object.fromEntries(behind.proxy.requests), {
    SendMessageBatch: 1,
    ReceiveMessage: 3,
    ChangeMessageVisibilityBatch: 1,
    DeleteMessageBatch: 2,
  })
  assert.equal(
    Object.values(behind.proxy.happened).reduce((sum, times) => sum + times),
    0,
  )
})

for (const fault of ['drop reply', 'cut reply'] as const) {
  test(`${fault}: the request is carried out, and its reply is lost`, async (t) => {
    const behind = await queueBehindProxy(t)
    let over = behind.proxy.fault({ fault, action: 'SendMessageBatch' })
    await assert.rejects(send(behind, 'a', 'b'), LOST)
    await over
    assert.deepEqual(await counts(behind), [2, 0])

    const messages = await receive(behind, { VisibilityTimeout: 600 })
    over = behind.proxy.fault({ fault, action: 'ChangeMessageVisibilityBatch' })
    await assert.rejects(hideFor(behind, messages.slice(0, 1), 0), LOST)
    await over
    assert.deepEqual(await counts(behind), [1, 1])

    over = behind.proxy.fault({ fault, action: 'DeleteMessageBatch' })
    await assert.rejects(deleteAll(behind, messages.slice(1)), LOST)
    await over
    assert.deepEqual(await counts(behind), [1, 0])

    over = behind.proxy.fault({ fault, action: 'ReceiveMessage' })
    await assert.rejects(receive(behind), LOST)
    await over
    assert.deepEqual(await counts(behind), [0, 1], 'it is invisible, and nobody has it')
    assert.equal(behind.proxy.happened[fault], 4)
  })
}

test('reset: the connection is gone, and nothing was done', async (t) => {
  const behind = await queueBehindProxy(t, { faults: [{ fault: 'reset' }] })
  await assert.rejects(send(behind, 'a'), LOST)
  assert.deepEqual(await counts(behind), [0, 0])
  await send(behind, 'a')
  assert.deepEqual(await counts(behind), [1, 0])
})

test('server errors and throttling reach the SDK as such, and nothing was done', async (t) => {
  const behind = await queueBehindProxy(t)
  void behind.proxy.fault({ fault: 'server error' })
  const broken = await failureOf(send(behind, 'a'))
  assert.deepEqual([broken.name, '$fault' in broken && broken.$fault], ['InternalError', 'server'])
  void behind.proxy.fault({ fault: 'throttle' })
  assert.match((await failureOf(send(behind, 'a'))).name, /RequestThrottled/)
  assert.deepEqual(await counts(behind), [0, 0])

  // An SDK with retries of its own repeats both.
  const patient = new SQSClient(behind.proxy.config)
  t.after(() => patient.destroy())
  void behind.proxy.fault({ fault: 'server error' })
  void behind.proxy.fault({ fault: 'throttle' })
  await send({ ...behind, client: patient }, 'a')
  assert.deepEqual([behind.proxy.happened['server error'], behind.proxy.happened.throttle], [2, 2])
})

test('fail part: the entries that are answered as failed are not carried out, the others are', async (t) => {
  const behind = await queueBehindProxy(t)
  const entries = (entry: string) => /"(b|c)"/.test(entry)
  void behind.proxy.fault({ fault: 'fail part', entries, code: 'Odd', senderFault: true })
  await send(behind, 'a') // None of these fits, so the fault is still to come.
  const { Successful, Failed } = await send(behind, 'a', 'b', 'c')
  assert.deepEqual(
    Successful?.map(({ Id }) => Id),
    ['e0'],
  )
  assert.deepEqual(
    Failed?.map(({ Id, Code, SenderFault }) => [Id, Code, SenderFault]),
    [
      ['e1', 'Odd', true],
      ['e2', 'Odd', true],
    ],
  )
  assert.deepEqual(await counts(behind), [2, 0])

  const messages = await receive(behind)
  void behind.proxy.fault({ fault: 'fail part', action: 'DeleteMessageBatch', entries: () => true })
  const none = await deleteAll(behind, messages)
  assert.deepEqual([none.Successful ?? [], none.Failed?.length], [[], 2])
  assert.equal(none.Failed?.[0]?.SenderFault, false)
  assert.deepEqual(await counts(behind), [0, 2])

  void behind.proxy.fault({ fault: 'fail part', action: 'DeleteMessageBatch' })
  const some = await deleteAll(behind, messages)
  assert.ok(some.Failed!.length >= 1)
  assert.deepEqual(await counts(behind), [0, some.Failed!.length])
})

test('duplicate: an earlier message is delivered again with its receipt handle, even after its delete', async (t) => {
  const behind = await queueBehindProxy(t)
  void behind.proxy.fault({ fault: 'duplicate', times: 3 })
  await send(behind, 'a')
  const [first] = await receive(behind)
  await deleteAll(behind, [first!])
  // There is room for one only, and then the queue is empty: the copy is delivered at once all the same.
  assert.deepEqual(await receive(behind, { MaxNumberOfMessages: 1, WaitTimeSeconds: 20 }), [first])
  assert.deepEqual(await receive(behind, { WaitTimeSeconds: 20 }), [first])
  await send(behind, ...letters(10))
  const ten = await receive(behind)
  assert.equal(ten.length, 10)
  assert.equal(ten.filter(({ ReceiptHandle }) => ReceiptHandle === first!.ReceiptHandle).length, 1)
  assert.equal((await receive(behind)).length, 1)
  assert.equal(behind.proxy.happened.duplicate, 3)
})

test('reorder: the same messages in another order, the same one for the same seed', async (t) => {
  const orders = []
  for (const seed of [7, 7, 8]) {
    const behind = await queueBehindProxy(t, { seed, faults: [{ fault: 'reorder' }] })
    await send(behind, ...letters(10))
    orders.push(bodies(await receive(behind)))
  }
  assert.deepEqual([...orders[0]!].sort(), letters(10))
  assert.notDeepEqual(orders[0], letters(10))
  assert.deepEqual(orders[1], orders[0])
  assert.notDeepEqual(orders[2], orders[0])
})

test('delay: a request overtakes an earlier one; late reply: the request is carried out before', async (t) => {
  const behind = await queueBehindProxy(t)
  const { opened, open } = gate()
  const arrived = behind.proxy.fault({ fault: 'delay', until: opened })
  const late = send(behind, 'a')
  await arrived
  await send(behind, 'b')
  assert.deepEqual(await counts(behind), [1, 0])
  open()
  await late
  assert.deepEqual(bodies(await receive(behind)), ['b', 'a'])

  const reply = gate()
  void behind.proxy.fault({ fault: 'late reply', until: reply.opened })
  let isAnswered = false
  const waiting = send(behind, 'c').then(() => {
    isAnswered = true
  })
  await until('it is sent', async () => (await counts(behind))[0] === 1)
  assert.equal(isAnswered, false)
  reply.open()
  await waiting

  void behind.proxy.fault({ fault: 'delay', upToMs: 1 })
  await send(behind, 'd')
  assert.deepEqual([behind.proxy.happened.delay, behind.proxy.happened['late reply']], [2, 1])
})

test('a stale receipt handle is refused in each of the four actions, the newest is not', async (t) => {
  const behind = await queueBehindProxy(t, { refusesStaleHandles: true })
  const { client, queueUrl: QueueUrl } = behind
  await send(behind, 'a', 'b')
  const stale = await receive(behind)
  await hideFor(behind, stale, 0)
  const fresh = await receive(behind)
  assert.deepEqual(bodies(fresh), bodies(stale))
  const { ReceiptHandle } = stale[0]!
  for (const command of [
    new DeleteMessageCommand({ QueueUrl, ReceiptHandle }),
    new ChangeMessageVisibilityCommand({ QueueUrl, ReceiptHandle, VisibilityTimeout: 9 }),
  ]) {
    const error = await failureOf(client.send(command as DeleteMessageCommand))
    assert.equal(error.name, 'ReceiptHandleIsInvalid')
  }
  for (const answer of [
    await hideFor(behind, [stale[0]!, fresh[1]!], 9),
    await deleteAll(behind, [stale[0]!, fresh[1]!]),
  ]) {
    assert.deepEqual(answer.Successful, [{ Id: 'e1' }])
    assert.deepEqual(
      answer.Failed?.map(({ Id, Code }) => [Id, Code]),
      [['e0', 'ReceiptHandleIsInvalid']],
    )
  }
  assert.deepEqual(await counts(behind), [0, 1])
  await deleteAll(behind, [fresh[0]!])
  await deleteAll(behind, [fresh[0]!]) // Deleting twice is no fault.
  assert.deepEqual(await counts(behind), [0, 0])
  assert.equal(behind.proxy.happened['stale handle'], 4)
})

test('by chance: the same seed gives the same faults, and calm() ends them', async (t) => {
  const seen: string[] = []
  for (const seed of [3, 3, 4]) {
    const faults = [
      { fault: 'drop reply', chance: 0.3 },
      { fault: 'fail part', chance: 0.3 },
    ] as const
    const behind = await queueBehindProxy(t, { seed, faults })
    let outcomes = ''
    for (let request = 0; request < 40; request++) {
      outcomes += await send(behind, 'a', 'b').then(
        ({ Successful = [] }) => Successful.length,
        () => 'x',
      )
    }
    seen.push(outcomes)
    const { 'drop reply': dropped, 'fail part': failed } = behind.proxy.happened
    assert.ok(dropped > 3 && failed > 3, outcomes)
    assert.equal([...outcomes].filter((outcome) => outcome === 'x').length, dropped)
    behind.proxy.calm()
    for (let request = 0; request < 20; request++) await send(behind, 'a', 'b')
    assert.deepEqual([behind.proxy.happened['drop reply'], behind.proxy.happened['fail part']], [dropped, failed])
  }
  assert.equal(seen[1], seen[0])
  assert.notEqual(seen[2], seen[0])
})

test('seeded numbers are spread evenly, and neighbouring seeds do not resemble each other', () => {
  const tenths = Array.from({ length: 10 }, () => 0)
  for (let seed = 0; seed < 10_000; seed++) tenths[Math.floor(randomFrom(`1 SendMessageBatch ${seed}`)() * 10)]!++
  for (const count of tenths) assert.ok(count > 850 && count < 1_150, tenths.join(' '))
  const random = randomFrom('x')
  assert.equal(new Set(Array.from({ length: 1_000 }, random)).size, 1_000)
  assert.equal(FAULTS.length, new Set(FAULTS).size)
})
