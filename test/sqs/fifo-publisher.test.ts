// On a FIFO queue: the copy of a request is dropped, a row published again is not, and a group keeps its order.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type { NotSentError } from '../../src/core/errors.ts'
import { SqsPublisher, type SqsPublisherOptions } from '../../src/sqs/publisher.ts'
import type { FaultySqsOptions } from '../../tools/faulty-sqs.ts'
import { failureOf } from '../support/effects.ts'
import { queueBehindProxy } from './behind-proxy.ts'

async function fifo(t: TestContext, options: FaultySqsOptions & { attributes?: Record<string, string> } = {}) {
  const behind = await queueBehindProxy(t, { queue: 'rows.fifo', ...options })
  const { client, queueUrl } = behind
  const publisher = (own: Partial<SqsPublisherOptions> = {}) =>
    new SqsPublisher(client, { queueUrl, body: (id) => ({ id }), ...own })
  return { ...behind, publisher }
}

const ids = (n: number) => Array.from({ length: n }, (_, index) => `row-${index}`)

test('each row is a group of its own, also when SQS would refuse its id', async (t) => {
  const { publisher, drain } = await fifo(t)
  const odd = ['row-1', 'two words', 'ü', 'x'.repeat(200), `${'x'.repeat(200)}y`]
  await publisher().publish(odd)
  const messages = await drain()
  assert.deepEqual(
    messages.map(({ Body }) => JSON.parse(Body!).id),
    odd,
  )
  const groups = messages.map(({ Attributes }) => Attributes!.MessageGroupId!)
  assert.equal(groups[0], 'row-1')
  assert.equal(new Set(groups).size, 5)
  for (const group of groups) assert.match(group, /^[!-~]{1,128}$/)
})

for (const attributes of [{}, { ContentBasedDeduplication: 'true' }]) {
  test(`a row that is published again within five minutes arrives again ${JSON.stringify(attributes)}`, async (t) => {
    const { publisher, drainIds } = await fifo(t, { attributes })
    const sender = publisher()
    for (let time = 0; time < 3; time++) {
      await sender.publish(['a'])
      assert.deepEqual(await drainIds(), ['a'])
    }
  })
}

test('a request whose reply was lost is repeated, and arrives once', async (t) => {
  const { publisher, proxy, drainIds } = await fifo(t)
  void proxy.fault({ fault: 'drop reply', times: 2 })
  void proxy.fault({ fault: 'cut reply' })
  await publisher().publish(ids(10))
  assert.equal(proxy.requests.get('SendMessageBatch'), 4)
  assert.deepEqual(await drainIds(), ids(10))
})

test('a deduplication id of the caller is used, and SQS drops its duplicates', async (t) => {
  const { publisher, drainIds } = await fifo(t)
  const sender = publisher({ deduplicationId: (id) => id })
  await sender.publish(['a'])
  await sender.publish(['a', 'b'])
  assert.deepEqual(await drainIds(), ['a', 'b'])
})

test('the ids of one group are sent in order, also when replies are lost', async (t) => {
  const faults = (['drop reply', 'reset', 'server error', 'delay'] as const).map((fault) => ({ fault, chance: 0.15 }))
  const { publisher, drain, proxy } = await fifo(t, { seed: 5, faults })
  const all = ids(150)
  const groupOf = (id: string) => `group-${Number(id.slice(4)) % 3}`
  await publisher({ groupId: groupOf, attempts: 20 }).publish(all)
  const messages = await drain()
  for (const group of ['group-0', 'group-1', 'group-2']) {
    assert.deepEqual(
      messages.filter(({ Attributes }) => Attributes!.MessageGroupId === group).map(({ Body }) => JSON.parse(Body!).id),
      all.filter((id) => groupOf(id) === group),
    )
  }
  for (const { fault } of faults) assert.ok(proxy.happened[fault] > 0, fault)
})

test('rows of one group do not wait for those of another', async (t) => {
  const { publisher, proxy, drainIds } = await fifo(t)
  let free = () => {}
  const until = new Promise<void>((resolve) => {
    free = resolve
  })
  const arrived = proxy.fault({ fault: 'delay', until })
  const sender = publisher({ groupId: (id) => id[0]! })
  const slow = sender.publish(['a1'])
  await arrived
  const behindIt = sender.publish(['a2', 'b1'])
  await sender.publish(['b2', 'c1'])
  assert.deepEqual((await drainIds()).sort(), ['b1', 'b2', 'c1'])
  free()
  await Promise.all([slow, behindIt])
  assert.deepEqual(await drainIds(), ['a1', 'a2'])
})

test('a group or deduplication id that SQS would refuse is refused for its row only', async (t) => {
  const { publisher, drainIds } = await fifo(t)
  const groupId = (id: string) => (id === 'row-1' ? 'two words' : 'all')
  const deduplicationId = (id: string) => (id === 'row-2' ? 'x'.repeat(129) : id)
  const error = (await failureOf(publisher({ groupId, deduplicationId }).publish(ids(4)))) as NotSentError
  assert.deepEqual(
    error.unsent.map(({ id, refused }) => [id, refused]),
    [
      ['row-1', true],
      ['row-2', true],
    ],
  )
  assert.deepEqual(await drainIds(), ['row-0', 'row-3'])
})
