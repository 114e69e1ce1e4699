// The events of a consumer for each message, and its log lines. Neither holds a body.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Events, ofQueue } from '../../src/consumer/events.ts'
import type { HeldMessage } from '../../src/consumer/held.ts'
import type { LogEntry } from '../../src/index.ts'
import { SqsConsumer, type SqsConsumerEvents } from '../../src/sqs/index.ts'
import { gate } from '../support/gate.ts'
import { movableTimers } from '../support/movable-clock.ts'
import { until } from '../support/until.ts'
import { isEmpty, next, nextEvents, silence, sqsScene } from './scene.ts'
import { message, STANDARD, scripted, settled } from './scripted.ts'

const SECRET = 'the secret'
const secret = (id: string, receiveCount = 1) => ({ ...message(id, undefined, receiveCount), Body: `"${SECRET}"` })

/** One of each end. */
function ends({ id }: { readonly id: string }): object | undefined {
  switch (id) {
    case 'handled':
      return undefined
    case 'already':
      return { outcome: 'already_handled' }
    case 'failed':
      return { outcome: 'failed', error: new Error(SECRET) }
    case 'dead_letter':
      return { outcome: 'dead_letter', reason: 'mine' }
    case 'asked':
      return { outcome: 'again', after: '5s' }
    default:
      throw new Error(SECRET)
  }
}

test('each message emits events when received and ended, and is logged once, without its body', async (t) => {
  const messages = ['handled', 'already', 'failed', 'dead_letter', 'asked']
    .map((id) => secret(id))
    .concat(secret('threw', 4))
  const { start } = scripted(messages)
  const log: LogEntry[] = []
  const consumer = start(t, {
    queueUrl: STANDARD,
    deadLetterQueueUrl: `${STANDARD}-dead`,
    log: (entry) => log.push(entry),
    handle: ends,
  })
  const seen: [string, object][] = []
  for (const name of [
    'received',
    'redelivered',
    'handled',
    'already_handled',
    'failed',
    'dead_letter',
    'returned',
  ] as const) {
    consumer.on(name, (event: SqsConsumerEvents[typeof name][0]) => seen.push([name, event]))
  }
  await until('all have ended', () => seen.length === 6 + 1 + 6)
  assert.deepEqual(
    seen.filter(([name]) => name === 'received').map(([, event]) => event),
    messages.map(({ MessageId }) => ({ messageId: MessageId, receiveCount: MessageId === 'threw' ? 4 : 1 })),
  )
  for (const name of ['handled', 'already_handled', 'failed', 'dead_letter']) {
    const event = seen.find(([which]) => which === name)![1] as { deleted: boolean; durationMs: number }
    assert.ok(event.deleted && event.durationMs >= 0 && event.durationMs < 60_000, name)
  }
  const returned = seen.filter(([name]) => name === 'returned').map(([, event]) => event as { confirmed: boolean })
  assert.deepEqual(
    returned.map(({ confirmed }) => confirmed),
    [true, true],
  )
  assert.deepEqual(log.map(({ level, message }) => `${level} ${message.replace(/in \d+ s/, 'later')}`).toSorted(), [
    'debug message already (delivery 1) was already handled',
    'debug message handled (delivery 1) was handled',
    'error message dead_letter (delivery 1) can never be handled: mine; sent to q-dead',
    'info message asked (delivery 1) will be redelivered later: requested',
    'warn message failed (delivery 1) failed; its row records the error',
    'warn message threw (delivery 4) will be redelivered later: threw',
  ])
  const written = JSON.stringify([log.map(({ error: _, ...entry }) => entry), seen])
  assert.ok(!written.includes(SECRET), written)
})

test('a return that SQS refused has confirmed: false', async (t) => {
  const { start } = scripted([message('m')], {
    ChangeMessageVisibilityBatch: ({ asked: { Entries } }) => ({
      Failed: Entries!.map(({ Id }) => ({ Id, Code: 'ReceiptHandleIsInvalid', SenderFault: true })),
    }),
  })
  const consumer = start(t, { queueUrl: STANDARD, handle: ends })
  assert.equal((await next(consumer, 'returned')).confirmed, false)
})

test('without a log option successes are not logged', async (t) => {
  const written: string[] = []
  t.mock.method(process.stderr, 'write', (text: string) => written.push(text) > 0)
  const { client } = scripted(['handled', 'failed'].map((id) => message(id)))
  const consumer = new SqsConsumer(client, { queueUrl: STANDARD, signals: [], handle: ends })
  const ended = Promise.all([next(consumer, 'handled'), next(consumer, 'failed')])
  void consumer.run()
  await ended
  await consumer.stop()
  t.mock.restoreAll()
  const lines = written.filter((line) => line.includes('message '))
  assert.deepEqual([lines.length, lines[0]!.includes('failed; its row records the error')], [1, true], lines.join())
})

test('a problem is logged with its queue and its reason', async (t) => {
  const written: string[] = []
  t.mock.method(process.stderr, 'write', (text: string) => written.push(text) > 0)
  const refused = Object.assign(new Error('connect ECONNREFUSED 127.0.0.1:4566'), { code: 'ECONNREFUSED' })
  let failures = 2
  const { client } = scripted([message('handled')], {
    ReceiveMessage: (_, usual) => {
      if (failures-- > 0) throw refused
      return usual()
    },
  })
  const consumer = new SqsConsumer(client, { queueUrl: 'http://localhost/1/orders', signals: [], handle: ends })
  const handled = next(consumer, 'handled')
  void consumer.run()
  await handled
  await consumer.stop()
  t.mock.restoreAll()
  const trouble = 'trouble while receiving; trying again: connect ECONNREFUSED 127.0.0.1:4566 (Error ECONNREFUSED)'
  assert.equal(written[0], `leasehold warn: SQS queue orders: ${trouble}\n`)
})

test('every entry of the log names the queue, and lines without a message begin with it', async () => {
  const log: LogEntry[] = []
  const events = new Events(
    ofQueue('SQS queue orders', 'orders', (entry) => log.push(entry)),
    true,
  )
  events.problem('asking the database', new Error('Connection terminated unexpectedly'))
  events.fine('asking the database')
  events.problem('deleting', new Error('no'))
  events.fine('deleting')
  events.fine('receiving')
  events.log('info', { delivery: { id: 'm', receiveCount: 1 } } as HeldMessage, 'was handled')
  assert.deepEqual(
    log.map(({ message }) => message),
    [
      'SQS queue orders: trouble while asking the database; trying again: Connection terminated unexpectedly',
      'SQS queue orders: the database answers again after 1 s',
      'SQS queue orders: trouble while deleting; trying again: no',
      'SQS queue orders: deleting works again after 1 s',
      'message m (delivery 1) was handled',
    ],
  )
  assert.ok(log.every(({ queue }) => queue === 'orders'))
})

test('stopping a consumer with running handlers logs how long that may take', () => {
  const log: string[] = []
  const events = new Events(({ level, message }) => log.push(`${level} ${message}`), false)
  let stops = 0
  events.on('stopping', () => stops++)
  events.stopping(0, 25_000, true)
  events.stopping(2, 0, true)
  assert.deepEqual(log, [], 'there is nothing to wait for')
  events.stopping(2, 25_000, true)
  assert.deepEqual(log, ['warn stopping: 2 handlers have up to 25 s to end; a second signal aborts them now'])
  assert.equal(stops, 3)
})

test('held counts messages that wait, are handled, or are about to be deleted', async (t) => {
  const [mayEnd, mayDelete] = [gate(), gate()]
  const { start } = scripted(
    ['a1', 'a2', 'b1'].map((id) => message(id, id[0])),
    { DeleteMessageBatch: (_, usual) => mayDelete.opened.then(usual) },
  )
  const consumer = start(t, { handle: ({ id }) => (id === 'b1' ? undefined : mayEnd.opened) })
  assert.equal(consumer.held, 0)
  const handled = nextEvents(consumer, 'handled', 3)
  await nextEvents(consumer, 'received', 3)
  await settled()
  assert.equal(consumer.held, 3)
  mayEnd.open()
  mayDelete.open()
  await handled
  await until('none is held', () => consumer.held === 0)
})

test('a handler that exceeds its timeout is aborted, and its message is redelivered', async (t) => {
  const clock = movableTimers(t)
  const scene = await sqsScene(t)
  const { sqs, queue, send, consumer } = scene
  const url = await queue()
  const started = gate()
  let reason: unknown
  const busy = consumer({
    queueUrl: url,
    timeout: '10s',
    handle: ({ receiveCount, signal }) => {
      if (receiveCount > 1) return undefined
      started.open()
      return silence(signal).catch((aborted) => {
        reason = aborted
      })
    },
  })
  const [expired, handled] = [next(busy, 'expired'), nextEvents(busy, 'handled', 2)]
  const messageId = await send(url, {})
  await started.opened
  clock.pass(10_000)
  assert.equal((await expired).messageId, messageId)
  assert.match(String(reason), /its handler exceeded its timeout/)
  sqs.endTimeouts(url)
  assert.deepEqual(
    (await handled).map(({ receiveCount, deleted }) => [receiveCount, deleted]),
    [
      [1, false],
      [2, true],
    ],
  )
  await isEmpty(scene, url)
})

test('durationMs does not include the delete', async (t) => {
  const clock = movableTimers(t)
  const [deleting, mayDelete] = [gate(), gate()]
  const { start } = scripted([message('m')], {
    DeleteMessageBatch: (_, usual) => {
      deleting.open()
      return mayDelete.opened.then(usual)
    },
  })
  const consumer = start(t, { queueUrl: STANDARD, timeout: '1s' })
  const handled = next(consumer, 'handled')
  await deleting.opened
  clock.pass(5_000)
  mayDelete.open()
  assert.deepEqual([(await handled).deleted, consumer.counts().expired], [true, 0])
})

test('the id of a row is one word of a log line, for any body', async (t) => {
  const { start } = scripted([message('1')])
  const log: LogEntry[] = []
  const consumer = start(t, {
    queueUrl: STANDARD,
    log: (entry) => log.push(entry),
    handle: (message) => {
      message.rowId = 'id\nerror: a forged line '.repeat(40_000)
      throw new Error('no')
    },
  })
  const { rowId } = await next(consumer, 'returned')
  assert.ok(rowId!.length <= 200 && !rowId!.includes('\n'), rowId)
  assert.ok(log.every((entry) => entry.message.length < 300 && !entry.message.includes('\n')))
})
