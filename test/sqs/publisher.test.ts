// Messages about rows: all arrive despite lost requests and replies, or the caller learns which did not.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { SQSClient } from '@aws-sdk/client-sqs'
import type { NotSentError } from '../../src/core/errors.ts'
import { SqsPublisher, type SqsPublisherOptions } from '../../src/sqs/publisher.ts'
import type { FaultySqsOptions } from '../../tools/faulty-sqs.ts'
import { failureOf } from '../support/effects.ts'
import { gate } from '../support/gate.ts'
import { movableTimers } from '../support/movable-clock.ts'
import { codeOf } from '../support/worker.ts'
import { type BehindProxy, queueBehindProxy } from './behind-proxy.ts'

interface Scene extends BehindProxy {
  publisher(options?: Partial<SqsPublisherOptions>): SqsPublisher
}

async function scene(
  t: TestContext,
  options: FaultySqsOptions & { queue?: string; attributes?: Record<string, string> } = {},
): Promise<Scene> {
  const behind = await queueBehindProxy(t, options)
  const { client, queueUrl } = behind
  return { ...behind, publisher: (own) => new SqsPublisher(client, { queueUrl, body: (id) => ({ id }), ...own }) }
}

const ids = (n: number) => Array.from({ length: n }, (_, index) => `row-${index}`)

async function notSent(publishing: Promise<void>): Promise<NotSentError> {
  const error = await failureOf(publishing)
  assert.equal(error.code, 'NOT_SENT', error.message)
  return error as NotSentError
}

test('a thousand ids arrive, once each, in a hundred requests', async (t) => {
  const { publisher, proxy, drainIds } = await scene(t)
  await publisher().publish(ids(1_000))
  assert.deepEqual((await drainIds()).sort(), ids(1_000).sort())
  assert.equal(proxy.requests.get('SendMessageBatch'), 100)
})

test('an empty list sends nothing, and an id that is given twice is sent once', async (t) => {
  const { publisher, proxy, drainIds } = await scene(t)
  await publisher().publish([])
  assert.equal(proxy.requests.size, 0)
  await publisher().publish(['a', 'b', 'a'])
  assert.deepEqual(await drainIds(), ['a', 'b'])
})

test('ids may be numbers, large ones too; the callbacks receive them as text', async (t) => {
  const { publisher, drainIds } = await scene(t)
  const seen: string[] = []
  const body = (id: string) => {
    seen.push(id)
    return { id }
  }
  await publisher({ body }).publish([1, 2n ** 63n, '1', 'a'])
  assert.deepEqual(seen, ['1', '9223372036854775808', 'a'])
  assert.deepEqual(await drainIds(), ['1', '9223372036854775808', 'a'])
})

test('calls at the same time share requests, and no more requests are open than allowed', async (t) => {
  const { publisher, proxy, drainIds } = await scene(t)
  const { opened, open } = gate()
  const arrived = proxy.fault({ fault: 'delay', until: opened, times: 2 })
  const sender = publisher({ concurrency: 2 })
  const publishing = ids(42).map((id) => sender.publish([id]))
  await arrived
  assert.equal(proxy.requests.get('SendMessageBatch'), 2)
  open()
  await Promise.all(publishing)
  assert.equal(proxy.requests.get('SendMessageBatch'), 6, 'two with one each, then four with ten')
  assert.deepEqual((await drainIds()).sort(), ids(42).sort())
})

test('the entries of a batch that failed are sent again, the others are not', async (t) => {
  const { publisher, proxy, drainIds } = await scene(t)
  const entries = (entry: string) => /row-[357]\b/.test(entry)
  void proxy.fault({ fault: 'fail part', times: 3, entries })
  const sender = publisher()
  await sender.publish(ids(10))
  assert.deepEqual((await drainIds()).sort(), ids(10))
  assert.equal(proxy.requests.get('SendMessageBatch'), 4)
  assert.deepEqual(sender.counts(), { sent: 10, sentAgain: 9, notSent: 0 })
})

test("the sender's faults are reported with their ids at once, and all others are sent", async (t) => {
  const { publisher, proxy, drainIds } = await scene(t)
  const entries = (entry: string) => /row-(3|17)\b/.test(entry)
  void proxy.fault({ fault: 'fail part', times: 9, entries, code: 'InvalidMessageContents', senderFault: true })
  const sender = publisher()
  const { unsent, message } = await notSent(sender.publish(ids(20)))
  assert.deepEqual(sender.counts(), { sent: 18, sentAgain: 0, notSent: 2 })
  assert.deepEqual(
    unsent.map(({ id, refused }) => [id, refused]),
    [
      ['row-3', true],
      ['row-17', true],
    ],
  )
  assert.match(unsent[0]!.reason, /InvalidMessageContents: As scripted/)
  assert.match(message, /row-3 .*row-17/)
  assert.equal((await drainIds()).length, 18)
  assert.equal(proxy.requests.get('SendMessageBatch'), 2)
})

test('throttling is not taken for a refusal, of one entry or of a request', async (t) => {
  const { publisher, proxy, drainIds } = await scene(t)
  void proxy.fault({ fault: 'throttle' })
  void proxy.fault({ fault: 'fail part', code: 'KMS.ThrottlingException', senderFault: true })
  await publisher().publish(ids(10))
  assert.deepEqual((await drainIds()).sort(), ids(10))
})

test('entries that fail until the last attempt are reported, and may have arrived', async (t) => {
  const { publisher, proxy, drainIds } = await scene(t)
  void proxy.fault({ fault: 'fail part', times: 3, entries: (entry) => entry.includes('row-1') })
  void proxy.fault({ fault: 'drop reply', times: 3 })
  const sender = publisher({ attempts: 3 })
  const failed = await notSent(sender.publish(ids(3)))
  assert.deepEqual(
    failed.unsent.map(({ id, refused }) => [id, refused]),
    [['row-1', false]],
  )
  const lost = await notSent(sender.publish(['row-9']))
  assert.equal(lost.unsent[0]!.refused, false)
  assert.deepEqual(await drainIds(), ['row-0', 'row-2', 'row-9', 'row-9', 'row-9'])
  await sender.publish(['row-1'])
  assert.deepEqual(await drainIds(), ['row-1'])
})

test('lost replies, resets, errors and cut connections: all arrive, some twice', async (t) => {
  const faults = (['drop reply', 'cut reply', 'reset', 'server error', 'throttle', 'fail part'] as const).map(
    (fault) => ({ fault, chance: 0.06 }),
  )
  const { publisher, proxy, drainIds } = await scene(t, { seed: 20, faults })
  await publisher({ attempts: 20, concurrency: 10 }).publish(ids(1_000))
  const arrived = await drainIds()
  assert.deepEqual([...new Set(arrived)].sort(), ids(1_000).sort())
  const { happened } = proxy
  for (const { fault } of faults) assert.ok(happened[fault] > 0, fault)
  assert.ok(arrived.length > 1_000)
})

test('a reply that never comes is not waited for longer than the timeout', async (t) => {
  const clock = movableTimers(t)
  const { publisher, proxy, drainIds } = await scene(t)
  const { opened, open } = gate()
  t.after(open)
  const arrived = proxy.fault({ fault: 'late reply', until: opened })
  const published = publisher({ timeout: '30s' }).publish(['a'])
  await arrived
  clock.pass(30_000)
  await published
  assert.deepEqual(await drainIds(), ['a', 'a'])
})

test('an entry missing from the reply is sent again', async () => {
  const sizes: number[] = []
  const client = {
    send: async ({ input: { Entries } }: { input: { Entries: { Id: string }[] } }) => {
      sizes.push(Entries.length)
      return { Successful: Entries.slice(1).map(({ Id }) => ({ Id })) }
    },
  } as unknown as SQSClient
  const publisher = new SqsPublisher(client, { queueUrl: 'http://localhost/rows', body: (id) => id, attempts: 3 })
  const { unsent } = await notSent(publisher.publish(ids(4)))
  assert.deepEqual([sizes, unsent.map(({ id }) => id)], [[4, 1, 1], ['row-0']])
})

test('requests stay below the limit of bytes, and a single message above it is refused', async (t) => {
  const { publisher, proxy, drainIds } = await scene(t)
  const body = (id: string) => ({ id, pad: 'ü'.repeat(id === 'row-2' ? 60_000 : 20_000) })
  const { unsent } = await notSent(publisher({ body, maxBytes: 100_000 }).publish(ids(9)))
  assert.deepEqual(
    unsent.map(({ id, refused }) => [id, refused]),
    [['row-2', true]],
  )
  assert.match(unsent[0]!.reason, /100000|100 ?000|bytes/)
  assert.equal((await drainIds()).length, 8)
  assert.equal(proxy.requests.get('SendMessageBatch'), 4, 'two of 40 kB in each')
})

test('a lower limit than configured costs requests, but no messages', async (t) => {
  const { publisher, proxy, drainIds } = await scene(t)
  const body = (id: string) => ({ id, pad: 'x'.repeat(200_000) })
  // Once in the request that is refused as a whole, once alone: it is the second that counts.
  void proxy.fault({ fault: 'fail part', times: 2, entries: (entry) => entry.includes('row-3') })
  await publisher({ body, maxBytes: 2 ** 24, attempts: 2 }).publish(ids(10))
  assert.deepEqual((await drainIds()).sort(), ids(10))
  assert.equal(proxy.requests.get('SendMessageBatch'), 12)
  const tooLarge = publisher({ body: () => 'x'.repeat(1_048_577), maxBytes: 2 ** 24 })
  const { unsent } = await notSent(tooLarge.publish(['a']))
  assert.deepEqual([unsent[0]!.refused, /BatchRequestTooLong/.test(unsent[0]!.reason)], [true, true])
})

test('every character arrives as it was', async (t) => {
  const { publisher, drain } = await scene(t)
  const text = 'ü ✓ 😀 \u0001 \ufffe \uffff " \\ \n'
  await publisher({ body: () => ({ text }) }).publish(['a'])
  assert.deepEqual(JSON.parse((await drain())[0]!.Body!), { text })
  // Below the limit as text, above it as it is sent.
  const { unsent } = await notSent(publisher({ body: () => '😀'.repeat(250), maxBytes: 1_024 }).publish(['a']))
  assert.match(unsent[0]!.reason, /exceeds 1024 bytes/)
  assert.deepEqual(await drain(), [])
})

test('a body that cannot be made or would not arrive as it is does not stop the others', async (t) => {
  const { publisher, drainIds } = await scene(t)
  const body = (id: string) => {
    if (id === 'row-1') throw new Error('on purpose')
    return { id, ...(id === 'row-2' ? { when: Number.NaN } : {}) }
  }
  const { unsent } = await notSent(publisher({ body }).publish(ids(4)))
  assert.deepEqual(
    unsent.map(({ id, refused }) => [id, refused]),
    [
      ['row-1', true],
      ['row-2', true],
    ],
  )
  assert.match(unsent[0]!.reason, /Error: on purpose/)
  assert.deepEqual(await drainIds(), ['row-0', 'row-3'])
})

test('a missing queue is reported at once, for every id', async (t) => {
  const { publisher, proxy, queueUrl } = await scene(t)
  const { unsent } = await notSent(publisher({ queueUrl: `${queueUrl}-not` }).publish(ids(10)))
  assert.ok(unsent.length === 10 && unsent.every(({ refused }) => refused))
  assert.match(unsent[0]!.reason, /QueueDoesNotExist/)
  assert.equal(proxy.requests.get('SendMessageBatch'), 1)
})

test('an unreachable SQS is retried, then reported as unknown', async (t) => {
  const credentials = { accessKeyId: 'local', secretAccessKey: 'local' }
  const nowhere = new SQSClient({ endpoint: 'http://127.0.0.1:1', region: 'us-east-1', credentials, maxAttempts: 1 })
  t.after(() => nowhere.destroy())
  const publisher = new SqsPublisher(nowhere, { queueUrl: 'http://127.0.0.1:1/0/rows', body: (id) => id, attempts: 2 })
  const { unsent } = await notSent(publisher.publish(['a']))
  assert.deepEqual([unsent[0]!.refused, /ECONNREFUSED/.test(unsent[0]!.reason)], [false, true])
})

test('invalid options and ids are refused before anything is sent', async (t) => {
  const { publisher, client, queueUrl, proxy } = await scene(t)
  const mistakes: [string, () => unknown][] = [
    ['an unknown option', () => publisher({ groupid: (id: string) => id } as object)],
    ['no body', () => new SqsPublisher(client, { queueUrl } as SqsPublisherOptions)],
    ['no options', () => new SqsPublisher(client, undefined as unknown as SqsPublisherOptions)],
    ['no client', () => new SqsPublisher({} as SQSClient, { queueUrl, body: (id) => id })],
    ['a group id that is none', () => publisher({ groupId: 'all' as never })],
    ['deduplication on a standard queue', () => publisher({ deduplicationId: (id) => id })],
    ['no queue', () => publisher({ queueUrl: '' })],
    ['the name of a queue', () => publisher({ queueUrl: 'my-queue' })],
    ['its ARN', () => publisher({ queueUrl: 'arn:aws:sqs:eu-central-1:1:my-queue' })],
    ['no attempts', () => publisher({ attempts: 0 })],
    ['no requests', () => publisher({ concurrency: 0 })],
    ['no time', () => publisher({ timeout: 0 })],
    ['no room', () => publisher({ maxBytes: 10 })],
    ['half a number', () => publisher().publish([1.5])],
    ['no id', () => publisher().publish([undefined] as never)],
    ['a gap', () => publisher().publish(new Array(1))],
    ['one id', () => publisher().publish('abc' as never)],
    ['an empty id', () => publisher().publish(['a', ''])],
  ]
  for (const [what, make] of mistakes) assert.equal(await codeOf(make), 'INVALID_OPTION', what)
  assert.equal(proxy.requests.size, 0)
})
