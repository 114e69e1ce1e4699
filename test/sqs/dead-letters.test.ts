// A dead letter keeps everything of its message, and its reason if it fits.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isEmpty, next, sqsScene } from './scene.ts'
import { message, refusal, STANDARD, scripted } from './scripted.ts'

const ONE_MIB = 2 ** 20
const DEAD = { deadLetterQueueUrl: 'http://localhost/dead' }

test('a message of the maximum size is dead-lettered without its reason', async (t) => {
  const scene = await sqsScene(t)
  const { queue, send, consumer, receive } = scene
  const [url, dead] = [await queue(), await queue()]
  const body = 'x'.repeat(ONE_MIB)
  const busy = consumer({ queueUrl: url, deadLetterQueueUrl: dead, handle: () => {} })
  const buried = next(busy, 'dead_letter')
  await send(url, body)
  const { reason, deleted } = await buried
  assert.deepEqual([reason, deleted], ['not_json', true])
  const [letter] = await receive(dead, 60)
  assert.deepEqual([letter!.Body === body, letter!.MessageAttributes ?? {}], [true, {}])
  await isEmpty(scene, url)
})

test('a dead letter keeps the trace header', async (t) => {
  const traced = { ...message('m'), Attributes: { ApproximateReceiveCount: '1', AWSTraceHeader: 'Root=1-5759e988' } }
  const { start, all } = scripted([traced])
  const consumer = start(t, { queueUrl: STANDARD, ...DEAD, handle: () => ({ outcome: 'dead_letter', reason: 'mine' }) })
  assert.equal((await next(consumer, 'dead_letter')).deleted, true)
  assert.ok(all('ReceiveMessage')[0]!.asked.MessageSystemAttributeNames!.includes('AWSTraceHeader'))
  assert.equal(all('SendMessage')[0]!.asked.MessageSystemAttributes!.AWSTraceHeader!.StringValue, 'Root=1-5759e988')
})

test('dead letters of a FIFO queue may go to a standard queue', async (t) => {
  const scene = await sqsScene(t)
  const { queue, send, consumer, receive } = scene
  const [url, dead] = [await queue({ fifo: true }), await queue()]
  const busy = consumer({ queueUrl: url, deadLetterQueueUrl: dead, handle: () => {} })
  const [buried, handled] = [next(busy, 'dead_letter'), next(busy, 'handled')]
  for (const body of ['{', '{}']) await send(url, body)
  await Promise.all([buried, handled])
  assert.deepEqual(
    (await receive(dead, 60)).map(({ Body }) => Body),
    ['{'],
  )
  await isEmpty(scene, url)
})

test('a dead letter refused for another cause is not sent again without its reason', async (t) => {
  const { start, all } = scripted([message('m')], { SendMessage: () => Promise.reject(refusal('AccessDenied', 403)) })
  const consumer = start(t, { queueUrl: STANDARD, ...DEAD, handle: () => ({ outcome: 'dead_letter', reason: 'mine' }) })
  const { reason, error } = await next(consumer, 'returned')
  assert.deepEqual([reason, (error as Error).name], ['dead_letter_not_sent', 'AccessDenied'])
  assert.deepEqual(
    all('SendMessage').map(({ asked }) => asked.MessageAttributes!['leasehold.reason']!.StringValue),
    ['mine'],
  )
})
