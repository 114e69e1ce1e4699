// Where the SQS emulator differs from AWS.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ReceiveMessageCommand, SendMessageCommand } from '@aws-sdk/client-sqs'
import { startSqs } from '../../tools/sqs.ts'

test('an aborted long poll receives nothing', async (t) => {
  const sqs = await startSqs()
  t.after(() => sqs.stop())
  const url = await sqs.createQueue('q')
  const hangUp = new AbortController()
  const poll = new ReceiveMessageCommand({ QueueUrl: url, WaitTimeSeconds: 20 })
  const gone = sqs.client.send(poll, { abortSignal: hangUp.signal })
  await sqs.depth(url)
  hangUp.abort()
  await assert.rejects(gone, { name: 'AbortError' })
  await sqs.depth(url)
  await sqs.client.send(new SendMessageCommand({ QueueUrl: url, MessageBody: 'for whoever is here' }))
  assert.deepEqual(await sqs.depth(url), { visible: 1, inFlight: 0 })
})
