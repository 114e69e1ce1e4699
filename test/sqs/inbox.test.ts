// Messages that go through the inbox, and a second message or delivery under the same key.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Inbox } from '../../src/inbox/index.ts'
import { inOneTransaction } from '../../src/sqs/index.ts'
import { isEmpty, next, sqsScene } from './scene.ts'

test('without compare, another body under a known key is a duplicate', async (t) => {
  const scene = await sqsScene(t)
  const { lh, queue, send, consumer } = scene
  const url = await queue()
  const handle = inOneTransaction<{ id: string }>(new Inbox(lh, { source: 'test' }), () => {}, {
    key: ({ body }) => body.id,
    compare: false,
  })
  const busy = consumer<{ id: string }>({ queueUrl: url, handle })
  const ended = Promise.all([next(busy, 'handled'), next(busy, 'already_handled')])
  await send(url, { id: 'a', sentAt: 1 })
  await send(url, { id: 'a', sentAt: 2 })
  await ended
  await isEmpty(scene, url)
})

test('a message whose other delivery is still being handled is redelivered, and never deleted for it', async (t) => {
  const scene = await sqsScene(t)
  const { db, lh, queue, send, consumer } = scene
  const inbox = new Inbox(lh, { source: 'test', wait: '1ms' })
  const url = await queue()
  const other = await db.connect()
  await other.query('begin')
  const busy = consumer<{ id: string }>({
    queueUrl: url,
    handle: inOneTransaction(inbox, () => {}, { key: ({ body }) => body.id }),
  })
  assert.equal(await inbox.firstTime(other, 'a'), true)
  const returned = next(busy, 'returned')
  const handled = next(busy, 'handled')
  await send(url, { id: 'a' })
  assert.equal((await returned).reason, 'in_progress')
  await other.query('rollback')
  await handled
  await isEmpty(scene, url)
})
