import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { test } from 'node:test'
import { kind } from '../../src/index.ts'
import { intoQueues, type SqsClient, SqsConsumer, type SqsConsumerOptions } from '../../src/sqs/index.ts'
import { silence, through } from './scene.ts'

const GOOD = { queueUrl: 'https://sqs.eu-west-1.amazonaws.com/1/q', handle: () => {} }
const client = through({} as SqsClient, (_, __, ___, signal) => silence(signal))

test('invalid options are refused at once, with their name', () => {
  for (const [options, option] of [
    [{ visibilty: '30s' }, 'SqsConsumer.visibilty'],
    [{ queueUrl: 'q' }, 'SqsConsumer.queueUrl'],
    [{ queueUrl: undefined }, 'SqsConsumer.queueUrl'],
    [{ queueUrl: 'ftp://host/1/q' }, 'SqsConsumer.queueUrl'],
    [{ deadLetterQueueUrl: 'q' }, 'SqsConsumer.deadLetterQueueUrl'],
    [{ deadLetterQueueUrl: GOOD.queueUrl }, 'SqsConsumer.deadLetterQueueUrl'],
    [{ handle: undefined }, 'SqsConsumer.handle'],
    [{ body: 'json' }, 'SqsConsumer.body'],
    [{ concurrency: 0 }, 'SqsConsumer.concurrency'],
    [{ visibility: '500ms' }, 'SqsConsumer.visibility'],
    [{ visibility: '1500ms' }, 'SqsConsumer.visibility'],
    [{ log: console }, 'SqsConsumer.log'],
    [{ visibility: '13h' }, 'SqsConsumer.visibility'],
    [{ timeout: 0 }, 'SqsConsumer.timeout'],
    [{ backoff: { first: '1ms' } }, 'SqsConsumer.backoff.first'],
    [{ backoff: { max: '13h' } }, 'SqsConsumer.backoff.max'],
    [{ onGroupFailure: 'halt' }, 'SqsConsumer.onGroupFailure'],
    [{ signals: 'SIGTERM' }, 'SqsConsumer.signals'],
    [{ chores: [{ name: 'a', every: '1s', run: async () => ({}) }] }, 'SqsConsumer.pool'],
    [{ chores: [{ name: 'a', every: '1s' }] }, 'SqsConsumer.chores[0]'],
  ] as const) {
    const make = () => new SqsConsumer(client, { ...GOOD, ...options } as unknown as SqsConsumerOptions)
    assert.throws(make, { code: 'INVALID_OPTION', option })
  }
  assert.throws(() => new SqsConsumer({} as SqsClient, GOOD), { code: 'INVALID_OPTION', option: 'client' })
  assert.throws(() => intoQueues({ once() {}, leasehold: { enqueue() {} } } as never, { kinds: [], kindOf: 'type' }), {
    option: 'kinds',
  })
  assert.throws(
    () =>
      intoQueues({ once() {}, leasehold: { enqueue() {} } } as never, { kinds: [kind('a')], kindOff: 'type' } as never),
    /did you mean kindOf/,
  )
})

/** The reason in the error about one option. */
function reasonOf(options: object): string {
  try {
    new SqsConsumer(client, { ...GOOD, ...options } as SqsConsumerOptions)
    return ''
  } catch (error) {
    return (error as Error).message.replace(/^.*cannot be used: /, '')
  }
}

test('a number that was meant as seconds gets a hint', () => {
  const range = "it must be whole seconds, from '1s' to '12h'"
  assert.equal(reasonOf({ visibility: 30 }), `${range}; 30 is 30 milliseconds, for seconds write '30s'.`)
  assert.equal(reasonOf({ visibility: '1500ms' }), `${range}.`)
  assert.equal(reasonOf({ visibility: '13h' }), `${range}.`)
  for (const visibility of [30_000, '30s', '1m', '30000ms']) assert.equal(reasonOf({ visibility }), '')
})

test('a queue needs its URL, and an ARN is recognised', () => {
  const such = ', such as https://sqs.eu-west-1.amazonaws.com/123456789012/orders.'
  for (const option of ['queueUrl', 'deadLetterQueueUrl']) {
    const arn = 'arn:aws:sqs:eu-west-1:123456789012:orders'
    assert.equal(reasonOf({ [option]: arn }), `it is the queue's ARN; what is wanted is its URL${such}`)
    assert.equal(reasonOf({ [option]: 'my-queue' }), `it must be the URL of a queue${such}`)
    assert.equal(reasonOf({ [option]: 'http://localhost:4566/000000000000/orders' }), '')
  }
})

test('a misspelt option is refused with the likely name', () => {
  assert.match(reasonOf({ visibilty: '30s' }), /did you mean visibility\?$/)
  assert.match(reasonOf({ constructor: 1 }), /^there is no such option/)
})

test('a consumer that was stopped before it ran ends at once, and a listener that throws does no harm', async () => {
  const early = new SqsConsumer(client, { ...GOOD, signals: [] })
  await early.stop()
  await early.run()

  const logged: string[] = []
  const busy = new SqsConsumer(client, { ...GOOD, signals: [], log: ({ message }) => void logged.push(message) })
  busy.on('stopping', () => {
    throw new Error('on purpose')
  })
  const running = busy.run()
  await busy.stop()
  await running
  assert.deepEqual(logged, ['SQS queue q: a listener of "stopping" threw'])
})

test('nothing but leasehold/sqs needs the SDK', () => {
  const src = new URL('../../src/', import.meta.url)
  const files = readdirSync(src, { recursive: true, encoding: 'utf8' }).filter((path) => path.endsWith('.ts'))
  const importers = files.filter((path) => readFileSync(new URL(path, src), 'utf8').includes('@aws-sdk'))
  assert.ok(importers.length > 0)
  for (const path of importers) assert.match(path, /^sqs\//)
})
