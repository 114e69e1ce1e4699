// A message that fails each time ends in the dead-letter queue. Those behind it in its group do not.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { Groups } from '../../src/consumer/groups.ts'
import { SqsConsumer, type SqsConsumerOptions, type SqsMessage } from '../../src/sqs/index.ts'
import { movableClock } from '../support/movable-clock.ts'
import { until } from '../support/until.ts'
import { awsFifo } from './aws-fifo.ts'
import { next, nextEvents } from './scene.ts'
import { FIFO, message, scripted } from './scripted.ts'

const MAX_RECEIVE_COUNT = 3

/** Consumes a1 … an and b1, with a handler for a1 that fails. Time passes when a message is to be redelivered later. */
function consuming(
  t: TestContext,
  n: number,
  onFirst: (message: SqsMessage, place: ReturnType<typeof awsFifo>) => Promise<unknown>,
  options: Partial<SqsConsumerOptions> = {},
) {
  const clock = movableClock(t)
  const followers = Array.from({ length: n - 1 }, (_, index) => `a${index + 2}`)
  const queue = awsFifo(['a1', 'b1', ...followers], MAX_RECEIVE_COUNT)
  const handled: string[] = []
  const deliveries: number[] = []
  const pass = (ms: number) => {
    clock.pass(ms)
    queue.pass(ms)
  }
  const handle = async (message: SqsMessage) => {
    if (message.id === 'a1') return onFirst(message, { ...queue, pass })
    handled.push(message.id)
    deliveries.push(message.receiveCount)
  }
  const consumer = new SqsConsumer(queue.client, { queueUrl: FIFO, signals: [], log: () => {}, ...options, handle })
  consumer.on('returned', ({ delayMs }) => delayMs > 0 && pass(delayMs))
  const all = nextEvents(consumer, 'handled', n)
  void consumer.run()
  t.after(() => consumer.stop({ grace: 0 }))
  return { consumer, queue, pass, followers, handled, deliveries, all }
}

type Scene = ReturnType<typeof consuming>

function onlyTheFirstIsDead({ queue, handled, followers }: Scene): void {
  assert.deepEqual(queue.dead, ['a1'])
  assert.deepEqual(
    handled.filter((id) => id !== 'b1'),
    followers,
  )
}

/** Until a receive is open that takes several. */
async function untilSeveralAreAskedFor({ open }: Pick<Scene['queue'], 'open'>, receives: number): Promise<void> {
  await until('receives are open', () => [...open.values()].filter((most) => most > 1).length >= receives)
}

test('a message fails at once: the others use up one delivery, and are handled in order', async (t) => {
  const scene = consuming(t, 5, () => Promise.reject(new Error('on purpose')))
  await scene.all
  onlyTheFirstIsDead(scene)
  assert.deepEqual(Math.max(...scene.deliveries), 2)
})

test('a message that fails while receives are open is redelivered after them', async (t) => {
  const scene = consuming(
    t,
    25,
    async ({ receiveCount }, queue) => {
      if (receiveCount === 1) await untilSeveralAreAskedFor(queue, 2)
      throw new Error('on purpose')
    },
    { concurrency: 100 },
  )
  await scene.all
  onlyTheFirstIsDead(scene)
  assert.deepEqual(Math.max(...scene.deliveries), 2)
})

test('a message that fails slowly each time does not wear out the others', async (t) => {
  const scene = consuming(
    t,
    5,
    async (_, queue) => {
      queue.pass(600_000)
      await untilSeveralAreAskedFor(queue, 1)
      throw new Error('on purpose')
    },
    { visibility: '12h' },
  )
  await scene.all
  onlyTheFirstIsDead(scene)
  assert.deepEqual(Math.max(...scene.deliveries), 2)
})

test('a message that times out each time does not wear out the others', async (t) => {
  const scene = consuming(
    t,
    5,
    ({ signal }) => new Promise((resolve) => signal.addEventListener('abort', () => resolve({ outcome: 'again' }))),
    { timeout: 100 },
  )
  const other = next(scene.consumer, 'handled')
  // Not before the one of the other group is deleted: it would be redelivered, too.
  scene.consumer.on('expired', () => void other.then(() => scene.pass(30_000)))
  await scene.all
  onlyTheFirstIsDead(scene)
})

test('a message that failed in a group of its own does not slow the queue down for the others', async (t) => {
  const { start, all } = scripted([message('a', 'row-1')])
  const consumer = start(t, { handle: () => Promise.reject(new Error('no')) })
  await nextEvents(consumer, 'returned', 1)
  await until('it asks again', () => all('ReceiveMessage').length === 2)
  assert.equal(all('ReceiveMessage')[1]!.asked.MaxNumberOfMessages, 10)
})

test('skip: failed groups are not remembered', async (t) => {
  const stop = t.mock.method(Groups.prototype, 'stop')
  const { start } = scripted([message('a', 'row-1', 2), message('b', 'row-1')])
  const consumer = start(t, { onGroupFailure: 'skip', handle: () => Promise.reject(new Error('no')) })
  await nextEvents(consumer, 'returned', 2)
  assert.equal(stop.mock.callCount(), 0)
})
