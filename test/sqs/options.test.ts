import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { test } from 'node:test'
import { kind } from '../../src/index.ts'
import { intoQueues, type SqsClient, SqsConsumer, type SqsConsumerOptions } from '../../src/sqs/index.ts'
import { silence, through } from './scene.ts'

const GOOD = { queueUrl: 'https://sqs.eu-west-1.amazonaws.com/1/q', handle: () => {} }
const client = through({} as SqsClient, (_, __, ___, signal) => silence(signal))

test('options that cannot be used are refused at once, by name', () => {
  for (const [options, option] of [
    [{ visibilty: '30s' }, 'SqsConsumer.visibilty'],
    [{ queueUrl: 'q' }, 'SqsConsumer.queueUrl'],
    [{ deadLetterQueueUrl: 'q' }, 'SqsConsumer.deadLetterQueueUrl'],
    [{ deadLetterQueueUrl: GOOD.queueUrl }, 'SqsConsumer.deadLetterQueueUrl'],
    [{ handle: undefined }, 'SqsConsumer.handle'],
    [{ body: 'json' }, 'SqsConsumer.body'],
    [{ concurrency: 0 }, 'SqsConsumer.concurrency'],
    [{ visibility: '500ms' }, 'SqsConsumer.visibility in seconds'],
    [{ visibility: '13h' }, 'SqsConsumer.visibility in seconds'],
    [{ wait: '21s' }, 'SqsConsumer.wait in seconds'],
    [{ wait: 0 }, 'SqsConsumer.wait in seconds'],
    [{ timeout: 0 }, 'SqsConsumer.timeout'],
    [{ backoff: { first: '1ms' } }, 'SqsConsumer.backoff.first'],
    [{ backoff: { max: '13h' } }, 'SqsConsumer.backoff.max'],
    [{ maxBodyBytes: -1 }, 'SqsConsumer.maxBodyBytes'],
    [{ onGroupFailure: 'halt' }, 'SqsConsumer.onGroupFailure'],
    [{ signals: 'SIGTERM' }, 'SqsConsumer.signals'],
    [{ chores: [{ name: 'a', every: '1s', run: async () => ({}) }] }, 'SqsConsumer.pool'],
    [{ chores: [{ name: 'a', every: '1s' }] }, 'SqsConsumer.chores[0]'],
  ] as const) {
    const make = () => new SqsConsumer(client, { ...GOOD, ...options } as unknown as SqsConsumerOptions)
    assert.throws(make, { code: 'INVALID_OPTION', option })
  }
  assert.throws(() => new SqsConsumer({} as SqsClient, GOOD), { code: 'INVALID_OPTION', option: 'client' })
  assert.throws(() => intoQueues({ enqueue() {} } as never, { kinds: [], kindOf: 'type' }), { option: 'kinds' })
  assert.throws(
    () => intoQueues({ enqueue() {} } as never, { kinds: [kind('a')], kindOff: 'type' } as never),
    /did you mean kindOf/,
  )
})

test('a consumer that was stopped before it ran ends at once, and a listener that throws harms nobody', async () => {
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
  assert.deepEqual(logged, ['a listener of "stopping" threw'])
})

test('nothing but leasehold/sqs needs the SDK', () => {
  const src = new URL('../../src/', import.meta.url)
  const files = readdirSync(src, { recursive: true, encoding: 'utf8' }).filter((path) => path.endsWith('.ts'))
  const importers = files.filter((path) => readFileSync(new URL(path, src), 'utf8').includes('@aws-sdk'))
  assert.ok(importers.length > 0)
  for (const path of importers) assert.match(path, /^sqs\//)
})
