// FIFO queues: messages whose visibility expired. No message of their group overtakes them, and none takes up room.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { gate } from '../support/gate.ts'
import { movableClock, movableTimers } from '../support/movable-clock.ts'
import { until } from '../support/until.ts'
import { inTime } from '../support/worker.ts'
import { next, nextEvents, silence } from './scene.ts'
import { message, refusing, STANDARD, scripted, settled } from './scripted.ts'

const MESSAGES = ['a1', 'a2', 'b1', 'a3'].map((id) => message(id, id[0]))

/** A receive whose reply is so late that little of the timeout is certain, and that refuses to extend these. */
function late(t: TestContext, refused: readonly (readonly string[])[], SenderFault = false) {
  const clock = movableClock(t)
  let attempts = 0
  return scripted(MESSAGES, {
    ReceiveMessage: (_, usual) => {
      if (attempts === 0) clock.pass(25_000)
      return usual()
    },
    ChangeMessageVisibilityBatch: ({ asked }, usual) =>
      asked.Entries![0]!.VisibilityTimeout === 0
        ? usual()
        : refusing(asked, refused[attempts++] ?? [], 'InternalError', SenderFault),
  })
}

for (const [what, refused, isForGood, asked] of [
  ['for good', [['a1']], true, 1],
  ['twice', [['a1'], ['a1']], false, 2],
] as const) {
  test(`received late, and one could not be extended, ${what}: the rest of its group is returned, and none overtakes it`, async (t) => {
    const { start, all } = late(t, refused, isForGood)
    const started: string[] = []
    const consumer = start(t, { handle: ({ id }) => void started.push(id) })
    const [expired, returned, handled] = [
      next(consumer, 'expired'),
      nextEvents(consumer, 'returned', 2),
      next(consumer, 'handled'),
    ]
    assert.deepEqual([(await expired).messageId, (await handled).messageId], ['a1', 'b1'])
    assert.deepEqual((await returned).map(({ messageId, reason }) => [messageId, reason]).sort(), [
      ['a2', 'group_stopped'],
      ['a3', 'group_stopped'],
    ])
    assert.deepEqual(started, ['b1'])
    const extensions = all('ChangeMessageVisibilityBatch').filter(
      ({ asked }) => asked.Entries![0]!.VisibilityTimeout! > 0,
    )
    assert.equal(extensions.length, asked)
  })
}

test('received late, and one was extended at the second attempt: only it was extended again, and all are handled in order', async (t) => {
  const { start, all } = late(t, [['a1']])
  const started: string[] = []
  const consumer = start(t, { handle: ({ id }) => void started.push(id) })
  await nextEvents(consumer, 'handled', 4)
  assert.deepEqual(
    started.filter((id) => id !== 'b1'),
    ['a1', 'a2', 'a3'],
  )
  const sizes = all('ChangeMessageVisibilityBatch').map(({ asked }) => asked.Entries!.length)
  assert.deepEqual([sizes, consumer.counts().expired], [[4, 1], 0])
})

test('messages behind an expired one are returned, and the one before it goes on', async (t) => {
  const clock = movableTimers(t)
  const mayEnd = gate()
  const { start, did } = scripted(MESSAGES.slice(0, 2).concat(MESSAGES.slice(3)), {
    ChangeMessageVisibilityBatch: ({ asked }) => refusing(asked, ['a2'], 'MessageNotInflight', true),
  })
  const started: string[] = []
  const consumer = start(t, {
    handle: ({ id, signal }) => {
      started.push(id)
      return mayEnd.opened.then(() => signal.throwIfAborted())
    },
  })
  const [expired, returned, handled] = [
    next(consumer, 'expired'),
    next(consumer, 'returned'),
    next(consumer, 'handled'),
  ]
  await until('all are held', () => consumer.held === 3)
  clock.pass(10_100) // A third of their time, and a little more.
  assert.equal((await expired).messageId, 'a2')
  assert.deepEqual([(await returned).messageId, (await returned).reason], ['a3', 'group_stopped'])
  mayEnd.open()
  assert.deepEqual([(await handled).messageId, (await handled).deleted], ['a1', true])
  await settled()
  assert.deepEqual(started, ['a1'])
  assert.ok(did.includes('a3 in 0 s') && !did.includes('delete a2'), did.join())
})

test('messages that expire while waiting free their slots', async (t) => {
  const clock = movableTimers(t)
  const mayEnd = gate()
  t.after(mayEnd.open)
  const ten = Array.from({ length: 10 }, (_, index) => message(`a${index}`, 'a'))
  const { start, all } = scripted(ten, {
    ChangeMessageVisibilityBatch: () => Promise.reject(new Error('unreachable')),
  })
  const consumer = start(t, { onGroupFailure: 'skip', handle: () => mayEnd.opened })
  const expired = nextEvents(consumer, 'expired', 10)
  await until('all are held', () => consumer.held === 10)
  assert.equal(all('ReceiveMessage').length, 1)
  clock.pass(30_000)
  await expired
  await until('it asks again', () => all('ReceiveMessage').length === 2)
  // The slot of the running one is not free.
  assert.deepEqual([all('ReceiveMessage')[1]!.asked.MaxNumberOfMessages, consumer.held], [9, 1])
  await inTime(consumer.stop({ grace: 0 }), 'it does not stop')
})

for (const onGroupFailure of ['stop', 'skip'] as const) {
  test(`${onGroupFailure}: a message whose handler hangs is redelivered, and its group is free`, async (t) => {
    const expired = gate()
    const again = { ...message('a1', 'a', 2), ReceiptHandle: 'a1 again' }
    const deliveries = [async () => [message('a1', 'a')], () => expired.opened.then(() => [again, message('a2', 'a')])]
    const { start, did } = scripted([], {
      ReceiveMessage: async ({ signal }) => ({ Messages: await (deliveries.shift() ?? (() => silence(signal)))() }),
    })
    const consumer = start(t, {
      onGroupFailure,
      timeout: 100,
      handle: ({ receiveCount, id }) => (receiveCount === 1 && id === 'a1' ? new Promise<void>(() => {}) : undefined),
    })
    const handled = nextEvents(consumer, 'handled', 2)
    await next(consumer, 'expired')
    expired.open()
    assert.deepEqual(
      (await handled).map(({ messageId, receiveCount }) => [messageId, receiveCount]),
      [
        ['a1', 2],
        ['a2', 1],
      ],
    )
    assert.deepEqual(did, ['delete a1 again', 'delete a2'])
  })
}

test('skip: when the first one expires, those that wait behind it go on', async (t) => {
  const { start } = scripted([message('a1', 'a'), message('a2', 'a')])
  const consumer = start(t, {
    onGroupFailure: 'skip',
    timeout: 100,
    handle: ({ id }) => (id === 'a1' ? new Promise<void>(() => {}) : undefined),
  })
  assert.equal((await next(consumer, 'handled')).messageId, 'a2')
})

test('a handler that hung and ends at last does not disturb those of its group that came after it', async (t) => {
  const clock = movableTimers(t)
  const [started, expired, hung, follower] = [gate(), gate(), gate(), gate()]
  const deliveries = [
    async () => [message('a1', 'a')],
    () => expired.opened.then(() => [message('a2', 'a'), message('a3', 'a')]),
  ]
  const { start, did } = scripted([], {
    ReceiveMessage: async ({ signal }) => ({ Messages: await (deliveries.shift() ?? (() => silence(signal)))() }),
  })
  const consumer = start(t, {
    timeout: '10s',
    handle: ({ id }) => {
      started.open()
      return id === 'a1' ? hung.opened : id === 'a2' ? follower.opened : undefined
    },
  })
  const tooLong = next(consumer, 'expired')
  await started.opened
  clock.pass(10_000)
  await tooLong
  expired.open()
  await until('both are held', () => consumer.held === 3)
  hung.open()
  await until('it has ended', () => consumer.held === 2)
  await settled()
  assert.deepEqual(did, [], 'a3 waits for a2, and was not handed back')
  const handled = nextEvents(consumer, 'handled', 2)
  follower.open()
  await handled
  assert.deepEqual(did, ['delete a2', 'delete a3'])
})

test('a problem is reported when every handler hangs', async (t) => {
  const { start } = scripted([message('1'), message('2')])
  const consumer = start(t, {
    queueUrl: STANDARD,
    concurrency: 2,
    timeout: 100,
    handle: () => new Promise<void>(() => {}),
  })
  const { doing, error } = await next(consumer, 'problem')
  assert.equal(doing, 'handling')
  assert.match(String(error), /Each of 2 handlers ignores its signal/)
})
