// Whose fault it is: a database that is away is nobody's, and what a handler cannot reach is the handler's own business.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import pg from 'pg'
import { kind, Leasehold, messageSource } from '../../src/index.ts'
import { type Handle, inOneUpdate, inTwoPhases, intoQueue, oncePerMessage } from '../../src/sqs/index.ts'
import { freePort } from '../../tools/free-port.ts'
import { lastFirst, until } from '../support/worker.ts'
import { summaries } from '../transitions/summaries.ts'
import { next, sqsScene } from './scene.ts'
import { message, STANDARD, scripted } from './scripted.ts'

const refused = () => Promise.reject(Object.assign(new Error('connect'), { code: 'ECONNREFUSED' }))

test('a handler that reaches nobody has thrown, and as many messages are asked for as before', async (t) => {
  const { start, all } = scripted([message('1')])
  const consumer = start(t, { queueUrl: STANDARD, handle: refused })
  assert.equal((await next(consumer, 'returned')).reason, 'threw')
  await until('it asks again', () => all('ReceiveMessage').length === 2)
  assert.deepEqual([all('ReceiveMessage')[1]!.asked.MaxNumberOfMessages, consumer.counts().problem], [10, 0])
})

test('once per message: what its work cannot reach is its own business, too', async (t) => {
  const { queue, send, consumer, lh } = await sqsScene(t)
  const url = await queue()
  const busy = consumer({ queueUrl: url, handle: oncePerMessage(lh, messageSource('test'), refused) })
  const returned = next(busy, 'returned')
  await send(url, {})
  assert.equal((await returned).reason, 'threw')
})

test('a database that cannot be asked is told as such in each way of handling', async (t) => {
  const undo = lastFirst(t)
  const connectionString = `postgres://127.0.0.1:${await freePort()}/nobody`
  const pool = new pg.Pool({ connectionString })
  undo.after(() => pool.end())
  const leasehold = new Leasehold({ connectionString, log: () => {} })
  undo.after(() => leasehold.close())
  const nothing = () => assert.fail('there is no database')
  const id = () => 1
  const ways: readonly Handle<never>[] = [
    inTwoPhases(summaries, pool, id, nothing),
    inOneUpdate(summaries, pool, { id, from: 'pending', to: 'completed', work: nothing }),
    oncePerMessage(leasehold, messageSource('test'), nothing),
    intoQueue(leasehold, kind('task')),
  ]
  for (const handle of ways) {
    const consumer = scripted([message('1')]).start(undo, { queueUrl: STANDARD, handle: handle as Handle })
    const [returned, problem] = [next(consumer, 'returned'), next(consumer, 'problem')]
    assert.equal((await returned).reason, 'database')
    assert.match(String((await returned).error), /ECONNREFUSED/)
    assert.equal((await problem).doing, 'asking the database')
  }
})
