// FIFO queues: messages of a group one at a time and in order, also when one of them fails.
//
// The emulator hands out one message of a group at a time, AWS up to ten. So messages behind a failure are tested with a
// script in place of the queue.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { z } from 'zod'
import { inOneUpdate, inTwoPhases, type SqsClient } from '../../src/sqs/index.ts'
import { SqsQueue } from '../../src/sqs/queue.ts'
import { gate } from '../support/gate.ts'
import { until } from '../support/until.ts'
import { inTime } from '../support/worker.ts'
import { createSummaries, summaries, summary } from '../tables/summaries.ts'
import { isEmpty, next, nextEvents, sqsScene, through } from './scene.ts'
import { type Asked, FIFO, message, refusing, STANDARD, scripted, settled } from './scripted.ts'

const THREE_AND_ONE = ['a1', 'a2', 'b1', 'a3'].map((id) => message(id, id[0]))

/** A handler that fails on a1, and the messages it received. */
function failingFirst() {
  const started: string[] = []
  const handle = ({ id }: { readonly id: string }) => {
    started.push(id)
    if (id === 'a1') throw new Error('on purpose')
  }
  return { started, handle }
}

test('a message that fails once: its group waits for it, others do not', async (t) => {
  const scene = await sqsScene(t)
  const { queue, send, consumer } = scene
  const url = await queue({ fifo: true })
  for (const text of ['a1', 'a2', 'b1', 'a3', 'b2']) await send(url, JSON.stringify(text), { group: text[0]! })
  const done: string[] = []
  const others = gate()
  const busy = consumer({
    queueUrl: url,
    body: z.string(),
    handle: async ({ body, receiveCount }) => {
      if (body === 'a1' && receiveCount === 1) throw new Error('on purpose')
      if (body === 'a1') await others.opened // It may be redelivered before the others are received.
      done.push(body)
      if (body === 'b2') others.open()
    },
  })
  await nextEvents(busy, 'handled', 5)
  assert.deepEqual(done, ['b1', 'b2', 'a1', 'a2', 'a3'])
  await isEmpty(scene, url)
})

test('stop: messages behind a failure are returned at once, last first, and none has started', async (t) => {
  const { did, start } = scripted(THREE_AND_ONE)
  const { started, handle } = failingFirst()
  const consumer = start(t, { handle })
  const [returned] = await Promise.all([nextEvents(consumer, 'returned', 3), next(consumer, 'handled')])
  assert.deepEqual(started.sort(), ['a1', 'b1'])
  assert.deepEqual(
    returned.map(({ messageId, reason, delayMs }) => [messageId, reason, delayMs]),
    [
      ['a1', 'threw', 1_000],
      ['a3', 'group_stopped', 0],
      ['a2', 'group_stopped', 0],
    ],
  )
  assert.deepEqual(
    did.filter((what) => what.startsWith('a')),
    ['a1 in 1 s', 'a3 in 0 s', 'a2 in 0 s'],
  )
})

test('skip: messages behind a failure are handled, one after the other', async (t) => {
  const { did, start } = scripted(THREE_AND_ONE)
  const consumer = start(t, { onGroupFailure: 'skip', handle: failingFirst().handle })
  await Promise.all([next(consumer, 'returned'), nextEvents(consumer, 'handled', 3)])
  assert.deepEqual(
    did.filter((what) => what.includes('a') && what !== 'delete b1'),
    ['a1 in 1 s', 'delete a2', 'delete a3'],
  )
})

test('the next of a group starts when the delete of the one before it is known', async (t) => {
  const [mayEnd, b1] = [gate(), gate()]
  const { start } = scripted(THREE_AND_ONE, { DeleteMessageBatch: (_, usual) => mayEnd.opened.then(usual) })
  const started: string[] = []
  const consumer = start(t, {
    handle: ({ id }) => {
      started.push(id)
      if (id === 'b1') b1.open()
    },
  })
  await inTime(b1.opened, 'b1 did not start')
  await settled()
  assert.deepEqual(started, ['a1', 'b1'])
  const handled = nextEvents(consumer, 'handled', 4)
  mayEnd.open()
  await handled
  assert.deepEqual(started, ['a1', 'b1', 'a2', 'a3'])
})

test('stop: after a delete that failed for good the rest of the group is returned', async (t) => {
  const { start } = scripted(THREE_AND_ONE, {
    DeleteMessageBatch: ({ asked }) => refusing(asked, ['a1'], 'ReceiptHandleIsInvalid', true),
  })
  const started: string[] = []
  const consumer = start(t, { handle: ({ id }) => void started.push(id) })
  const [returned, handled] = await Promise.all([
    nextEvents(consumer, 'returned', 2),
    nextEvents(consumer, 'handled', 2),
  ])
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

test('the message of a failure recorded in its row is deleted, so the group goes on', async (t) => {
  const { did, start } = scripted(THREE_AND_ONE)
  const consumer = start(t, {
    handle: ({ id }) => (id === 'a1' ? { outcome: 'failed', error: new Error('in the row') } : undefined),
  })
  await Promise.all([next(consumer, 'failed'), nextEvents(consumer, 'handled', 3)])
  assert.deepEqual(
    did.filter((what) => what !== 'delete b1'),
    ['delete a1', 'delete a2', 'delete a3'],
  )
})

test('messages without a group id are one group', async (t) => {
  const mayEnd = gate()
  const { did, start } = scripted([message('m1'), message('m2')])
  const started: string[] = []
  const consumer = start(t, {
    handle: ({ id }) => {
      started.push(id)
      return mayEnd.opened
    },
  })
  const handled = nextEvents(consumer, 'handled', 2)
  await nextEvents(consumer, 'received', 2)
  await settled()
  assert.deepEqual(started, ['m1'])
  mayEnd.open()
  await handled
  assert.deepEqual(did, ['delete m1', 'delete m2'])
})

test('each receive has an id of its own, so that a repeated one gets the same messages', async (t) => {
  const { start, all } = scripted([message('a1', 'a')])
  start(t, {})
  await until('it asks again', () => all('ReceiveMessage').length === 2)
  const [first, second] = all('ReceiveMessage').map(({ asked }) => asked.ReceiveRequestAttemptId)
  assert.ok(first !== undefined && second !== undefined && first !== second, `${first} ${second}`)
  const standard = scripted([])
  standard.start(t, { queueUrl: STANDARD })
  await until('it asks', () => standard.all('ReceiveMessage').length > 0)
  assert.equal(standard.all('ReceiveMessage')[0]!.asked.ReceiveRequestAttemptId, undefined)
})

test('the next receive repeats one without a reply, with the same id', async (t) => {
  let asked = 0
  const { start, all } = scripted([message('a1', 'a')], {
    ReceiveMessage: (_, usual) => {
      asked++
      if (asked > 2) return usual()
      throw Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' })
    },
  })
  start(t, {})
  await until('it has an answer, and asks again', () => all('ReceiveMessage').length === 4)
  const [lost, alsoLost, heard, next] = all('ReceiveMessage').map(({ asked }) => asked)
  assert.ok(lost!.ReceiveRequestAttemptId !== undefined)
  assert.deepEqual(alsoLost, lost)
  assert.deepEqual(heard, lost)
  assert.notEqual(next!.ReceiveRequestAttemptId, lost!.ReceiveRequestAttemptId)
})

test('a repeated receive asks for the same number of messages', async () => {
  const attempts: unknown[] = []
  const client = through({} as SqsClient, async (_, __, { input }) => {
    attempts.push((input as Asked).ReceiveRequestAttemptId)
    if (attempts.length === 1) throw new Error('socket hang up')
    return {}
  })
  const queue = new SqsQueue(client, FIFO)
  const { signal } = new AbortController()
  await assert.rejects(queue.receive(10, 30_000, signal))
  await queue.receive(1, 30_000, signal)
  await queue.receive(10, 30_000, signal)
  assert.deepEqual([attempts[1] === attempts[0], attempts[2] === attempts[0]], [false, true])
})

for (const [way, handleOf] of [
  ['in two phases', inTwoPhases<{ id: number }, 'result' | 'completed_at'>],
  ['in one update', undefined],
] as const) {
  test(`a row that another worker holds, ${way}: its group waits; a standard queue deletes the message`, async (t) => {
    const scene = await sqsScene(t)
    const { db, queue, send, consumer } = scene
    await createSummaries(db, 2)
    await summaries.claim(db.pool, 1)
    const done: number[] = []
    const id = ({ body }: { readonly body: { readonly id: number } }) => body.id
    const work = async ({ body }: { readonly body: { readonly id: number } }) => {
      done.push(body.id)
      return { result: 'done' }
    }
    const handle = handleOf
      ? handleOf(summaries, db.pool, { id, effect: work })
      : inOneUpdate(summaries, db.pool, { id, from: 'pending', to: 'completed', work })
    const standard = await queue()
    const carefree = consumer<{ id: number }>({ queueUrl: standard, handle })
    const dropped = next(carefree, 'already_handled')
    await send(standard, { id: 1 })
    assert.equal((await dropped).deleted, true)

    const url = await queue({ fifo: true })
    for (const id of [1, 2]) await send(url, { id })
    const busy = consumer<{ id: number }>({ queueUrl: url, handle })
    const [returned, already, handled] = [next(busy, 'returned'), next(busy, 'already_handled'), next(busy, 'handled')]
    assert.deepEqual([(await returned).reason, (await returned).rowId, done], ['row_busy', '1', []])
    await db.pool.query(`update summary set status = 'completed' where id = 1`)
    assert.deepEqual([(await already).rowId, (await handled).rowId, done], ['1', '2', [2]])
    assert.equal((await summary(db, 2)).status, 'completed')
    await isEmpty(scene, url)
  })
}

for (const ends of ['returns', 'throws'] as const) {
  test(`a row claimed by another worker during the work in one update, which then ${ends}: its group waits`, async (t) => {
    const { db, queue, send, consumer } = await sqsScene(t)
    await createSummaries(db, 1)
    const url = await queue({ fifo: true })
    const work = async () => {
      await summaries.claim(db.pool, 1)
      if (ends === 'throws') throw new Error('on purpose')
      return { result: 'not mine' }
    }
    const handle = inOneUpdate(summaries, db.pool, { id: () => 1, from: 'pending', to: 'completed', work })
    const busy = consumer({ queueUrl: url, handle })
    const returned = next(busy, 'returned')
    await send(url, { id: 1 })
    assert.equal((await returned).reason, 'row_busy')
    const { status, result, attempt_count } = await summary(db, 1)
    assert.deepEqual([status, result, attempt_count], ['processing', null, 0])
  })
}
