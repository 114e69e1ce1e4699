// An outage of the database is not a failure of the message; what a handler cannot reach is its own failure.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import pg from 'pg'
import { Inbox } from '../../src/inbox/index.ts'
import { kind, Leasehold, type LogEntry } from '../../src/index.ts'
import { type Handle, inOneTransaction, inOneUpdate, inTwoPhases, intoQueue, SqsConsumer } from '../../src/sqs/index.ts'
import { freshDatabase } from '../support/database.ts'
import { gate } from '../support/gate.ts'
import { until } from '../support/until.ts'
import { inTime, lastFirst } from '../support/worker.ts'
import { summaries } from '../tables/summaries.ts'
import { next, nextEvents, silence, sqsScene } from './scene.ts'
import { message, type Request, STANDARD, scripted, settled } from './scripted.ts'

const gone = Object.assign(new Error('terminating connection'), { code: '57P01' })
const mostOf = (requests: readonly Request[]) => requests.map(({ asked }) => asked.MaxNumberOfMessages)

const id = () => 1
const refused = () => Promise.reject(Object.assign(new Error('connect'), { code: 'ECONNREFUSED' }))

test('a handler with a connection error of its own has thrown, and receives go on', async (t) => {
  const { start, all } = scripted([message('1')])
  const consumer = start(t, { queueUrl: STANDARD, handle: refused })
  assert.equal((await next(consumer, 'returned')).reason, 'threw')
  await until('it asks again', () => all('ReceiveMessage').length === 2)
  assert.deepEqual([all('ReceiveMessage')[1]!.asked.MaxNumberOfMessages, consumer.counts().problem], [10, 0])
})

test('once per message: a connection error of its work is its own failure, too', async (t) => {
  const { queue, send, consumer, lh } = await sqsScene(t)
  const url = await queue()
  const busy = consumer({ queueUrl: url, handle: inOneTransaction(new Inbox(lh, { source: 'test' }), refused) })
  const returned = next(busy, 'returned')
  await send(url, {})
  assert.equal((await returned).reason, 'threw')
})

test('an unreachable database is reported as such in each way of handling', async (t) => {
  const undo = lastFirst(t)
  const connectionString = 'postgres://127.0.0.1:1/nobody'
  const pool = new pg.Pool({ connectionString })
  undo.after(() => pool.end())
  const leasehold = new Leasehold({ connectionString, log: () => {} })
  undo.after(() => leasehold.close())
  const nothing = () => assert.fail('there is no database')
  const ways: readonly Handle<never>[] = [
    inTwoPhases(summaries, pool, { id, effect: nothing }),
    inOneUpdate(summaries, pool, { id, from: 'pending', to: 'completed', work: nothing }),
    inOneTransaction(new Inbox(leasehold, { source: 'test' }), nothing),
    intoQueue(new Inbox(leasehold, { source: 'test' }), kind('task')),
  ]
  for (const handle of ways) {
    const consumer = scripted([message('1')]).start(undo, { queueUrl: STANDARD, handle: handle as Handle })
    const [returned, problem] = [next(consumer, 'returned'), next(consumer, 'problem')]
    assert.equal((await returned).reason, 'database')
    assert.match(String((await returned).error), /ECONNREFUSED/)
    assert.equal((await problem).doing, 'asking the database')
  }
})

test('while the database is away one message probes it at a time', async (t) => {
  const [away, back] = [gate(), gate()]
  const deliveries = ['1', '2', '3', '4']
  const { start, all } = scripted([], {
    ReceiveMessage: ({ signal }) => {
      const id = deliveries.shift()
      return id === undefined ? silence(signal) : { Messages: [message(id)] }
    },
  })
  const consumer = start(t, {
    queueUrl: STANDARD,
    handle: async ({ id }) => {
      if (id === '1') throw gone
      if (id === '2') {
        away.open()
        await back.opened
      }
    },
  })
  await inTime(away.opened, 'not asked again')
  await settled()
  assert.deepEqual(mostOf(all('ReceiveMessage')), [10, 1], 'the second one has not found out yet')
  const handled = nextEvents(consumer, 'handled', 3)
  back.open()
  await handled
  assert.deepEqual(mostOf(all('ReceiveMessage')).slice(0, 4), [10, 1, 10, 10])
})

test('a poison message does not probe the database: messages are still received one at a time', async (t) => {
  const deliveries = [message('1'), { ...message('2'), Body: '{' }]
  const { start, all } = scripted([], {
    ReceiveMessage: ({ signal }) => {
      const next = deliveries.shift()
      return next === undefined ? silence(signal) : { Messages: [next] }
    },
  })
  start(t, { queueUrl: STANDARD, handle: () => Promise.reject(gone) })
  await until('it asks a third time', () => all('ReceiveMessage').length === 3)
  assert.deepEqual(mostOf(all('ReceiveMessage')), [10, 1, 1])
})

test('a missing table or schema is reported as a database problem in each way of handling', async (t) => {
  const undo = lastFirst(t)
  const db = await freshDatabase(undo as TestContext)
  const leasehold = new Leasehold({ pool: db.pool, schema: 'elsewhere', log: () => {} })
  const nothing = () => assert.fail('there is no table')
  const ways: readonly Handle<never>[] = [
    inTwoPhases(summaries, db.pool, { id, effect: nothing }),
    inOneUpdate(summaries, db.pool, { id, from: 'pending', to: 'completed', work: nothing }),
    inOneTransaction(new Inbox(leasehold, { source: 'test' }), nothing),
    intoQueue(new Inbox(leasehold, { source: 'test' }), kind('task')),
  ]
  for (const handle of ways) {
    const consumer = scripted([message('1')]).start(undo, { queueUrl: STANDARD, handle: handle as Handle })
    const [returned, problem] = [next(consumer, 'returned'), next(consumer, 'problem')]
    assert.equal((await returned).reason, 'database') // So the next message is received alone.
    assert.equal((await problem).doing, 'asking the database')
  }
})

test('a table that a custom function does not find is its own failure', async (t) => {
  const undo = lastFirst(t)
  const db = await freshDatabase(undo as TestContext)
  const leasehold = new Leasehold({ pool: db.pool, log: () => {} })
  const missing = () => db.pool.query('select * from nothing')
  const lookedUp = () => {
    throw Object.assign(new Error('no such table'), { code: '42P01' })
  }
  for (const handle of [
    missing,
    inOneTransaction(new Inbox(leasehold, { source: 'test' }), (tx) => tx.query('select * from nothing')),
    inTwoPhases(summaries, db.pool, { id: lookedUp, effect: refused }),
  ]) {
    const consumer = scripted([message('1')]).start(undo, { queueUrl: STANDARD, handle: handle as Handle })
    const { reason, error } = await next(consumer, 'returned')
    assert.deepEqual([reason, consumer.counts().problem, codeOf(error)], ['threw', 0, '42P01'])
  }
})

const codeOf = (error: unknown) => (error as { code?: unknown }).code

const USERS: readonly (readonly [what: string, use: (pool: pg.Pool) => unknown])[] = [
  ['in two phases', (pool) => inTwoPhases(summaries, pool, { id, effect: async () => ({}) })],
  [
    'in one update',
    (pool) => inOneUpdate(summaries, pool, { id, from: 'pending', to: 'completed', work: async () => ({}) }),
  ],
  [
    'chores of a consumer',
    (pool) => new SqsConsumer({ send: refused } as never, { queueUrl: STANDARD, handle: refused, pool }),
  ],
]

for (const [what, use] of USERS) {
  test(`a restart of Postgres under an idle pool, ${what}: the process lives, and the pool connects again`, async (t) => {
    const undo = lastFirst(t)
    const db = await freshDatabase(undo as TestContext)
    const pool = new pg.Pool({ connectionString: db.url, max: 1 })
    undo.after(() => pool.end())
    use(pool)
    const { rows } = await pool.query('select pg_backend_pid() as pid')
    const lost = new Promise((resolve) => pool.once('remove', resolve))
    await db.pool.query('select pg_terminate_backend($1)', [rows[0].pid])
    await lost // Without a listener, Node would have ended the process by now.
    const { rows: later } = await pool.query('select pg_backend_pid() as pid')
    assert.notEqual(later[0].pid, rows[0].pid)
  })
}

test('a user’s own error listener stays alone, and otherwise the first log gets lost connections', async (t) => {
  const undo = lastFirst(t)
  const own = new pg.Pool()
  own.on('error', () => {})
  inTwoPhases(summaries, own, { id, effect: async () => ({}) })
  assert.equal(own.listenerCount('error'), 1)
  const pool = new pg.Pool()
  inTwoPhases(summaries, pool, { id, effect: async () => ({}) })
  const heard: string[] = []
  const options = {
    queueUrl: STANDARD,
    handle: refused,
    pool,
    log: ({ message }: LogEntry) => void heard.push(message),
  }
  new SqsConsumer({ send: refused } as never, options)
  const leasehold = new Leasehold({ pool, log: () => assert.fail('reported twice') })
  undo.after(() => leasehold.close())
  pool.emit('error', new Error('lost'), {} as never)
  assert.deepEqual([pool.listenerCount('error'), heard], [1, ['an idle connection was lost']])
})

test('the end of each problem is logged once', async (t) => {
  const hangUp = () => {
    throw Object.assign(new Error('socket hang up'), { code: 'ECONNRESET' })
  }
  const failing = new Set(['ReceiveMessage', 'DeleteMessageBatch', 'ChangeMessageVisibilityBatch', 'SendMessage'])
  const once = (name: string) => () => (failing.delete(name) ? hangUp() : undefined)
  const deliveries = [
    { ...message('1'), Body: '{' },
    message('2'),
    { ...message('3'), Body: '{' },
    message('4'),
    message('5'),
  ]
  const log: string[] = []
  const { start } = scripted([], {
    ReceiveMessage: ({ signal }) => {
      once('ReceiveMessage')()
      const next = deliveries.shift()
      return next === undefined ? silence(signal) : { Messages: [next] }
    },
    DeleteMessageBatch: once('DeleteMessageBatch'),
    ChangeMessageVisibilityBatch: once('ChangeMessageVisibilityBatch'),
    SendMessage: once('SendMessage'),
  })
  const consumer = start(t, {
    queueUrl: STANDARD,
    deadLetterQueueUrl: `${STANDARD}-dead`,
    handle: ({ id }) => (id === '2' ? Promise.reject(gone) : undefined),
    log: (entry) => entry.messageId === undefined && log.push(entry.message.replace(/\d+ s$/, 'a while')),
  })
  await nextEvents(consumer, 'handled', 2)
  assert.deepEqual(log.filter((line) => line.includes('again after')).toSorted(), [
    'SQS queue q: deleting works again after a while',
    'SQS queue q: receiving works again after a while',
    'SQS queue q: returning works again after a while',
    'SQS queue q: sending a dead letter works again after a while',
    'SQS queue q: the database answers again after a while',
  ])
})
