// When messages are received, how many, and what happens when SQS refuses.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Receiver } from '../../src/consumer/receiver.ts'
import { InvalidOptionError } from '../../src/index.ts'
import { SqsConsumer } from '../../src/sqs/index.ts'
import { SqsQueue } from '../../src/sqs/queue.ts'
import { startSqs } from '../../tools/sqs.ts'
import { gate } from '../support/gate.ts'
import { until } from '../support/until.ts'
import { inTime, lastFirst } from '../support/worker.ts'
import { next, nextEvents, silence } from './scene.ts'
import { message, refusal, STANDARD, scripted, settled } from './scripted.ts'

test('run() rejects when there is no such queue, and the consumer has stopped', async (t) => {
  const undo = lastFirst(t)
  const sqs = await startSqs()
  undo.after(() => sqs.stop())
  const queueUrl = (await sqs.createQueue('q')).replace(/q$/, 'other')
  const consumer = new SqsConsumer(sqs.client, { queueUrl, handle: () => {}, signals: [], log: () => {} })
  const stopped = next(consumer, 'stopped')
  await assert.rejects(consumer.run(), (error: Error) => {
    assert.ok(error instanceof InvalidOptionError && error.message.includes(queueUrl), error.message)
    assert.match(error.message, /QueueDoesNotExist|does not exist/)
    return true
  })
  assert.equal(consumer.counts().problem, 0, 'it is not tried again, so nobody is told that it is')
  await Promise.all([stopped, consumer.stop()])
})

for (const [what, answers] of [
  ['trouble at the first receive', [refusal('InternalError', 500)]],
  ['too many requests at the first receive', [refusal('RequestThrottled')]],
  ['a refusal after a success', [undefined, refusal('AccessDenied', 403)]],
] as const) {
  test(`${what} is a problem, and the receive is repeated`, async (t) => {
    let receives = 0
    const { start } = scripted([message('m')], {
      ReceiveMessage: (_, usual) => {
        const answer = receives < answers.length ? answers[receives++] : usual
        if (answer instanceof Error) throw answer
        return answer === undefined ? {} : usual()
      },
    })
    const consumer = start(t, { queueUrl: STANDARD })
    const [problem, handled] = [next(consumer, 'problem'), next(consumer, 'handled')]
    assert.equal((await problem).doing, 'receiving')
    await handled
  })
}

/** The maximum of open receives. If each counted as a failure, the next backoff would be long. */
const MANY = 16

for (const trouble of ['SQS', 'the database'] as const) {
  test(`while ${trouble} is in trouble one receive is open at a time, with any room`, async (t) => {
    const [manyAreOpen, goesWrong] = [gate(), gate()]
    let [open, mostOpen, receives, problems] = [0, 0, 0, 0]
    let isTrouble = false
    const answer = (count: number) => {
      if (trouble === 'SQS') throw refusal('InternalError', 500)
      return Array.from({ length: count }, () => message('m'))
    }
    const receive = async (count: number) => {
      open++
      try {
        if (isTrouble) {
          mostOpen = Math.max(mostOpen, open)
          await settled() // Others would be asked for by now.
          return answer(count)
        }
        if (++receives < MANY) return Array.from({ length: count }, () => message('m'))
        if (open === MANY) manyAreOpen.open()
        await goesWrong.opened
        return answer(count)
      } finally {
        open--
      }
    }
    const receiver = new Receiver({
      queue: Object.assign(new SqsQueue({} as never, 'http://localhost/q'), { receive }) as unknown as SqsQueue,
      visibilityMs: 30_000,
      room: () => 1_000,
      isMoreToCome: () => false,
      oneAtATime: () => false,
      onReceived: async () => {
        if (!isTrouble) return
        problems++
        receiver.databaseIs(false)
      },
      onAnswered: () => {},
      onProblem: () => {
        problems++
      },
      onRefused: (error) => assert.fail(String(error)),
    })
    t.after(() => receiver.stop())
    receiver.more()
    await manyAreOpen.opened
    isTrouble = true
    goesWrong.open()
    await until('it has asked a few times', () => problems >= MANY + 4)
    assert.equal(mostOpen, 1)
  })
}

test('while deletes hang only a bounded number is received, and the rest afterwards', async (t) => {
  const mayDelete = gate()
  let given = 0
  const { start } = scripted([], {
    DeleteMessageBatch: (_, usual) => mayDelete.opened.then(usual),
    ReceiveMessage: ({ asked, signal }) => {
      const count = Math.min(asked.MaxNumberOfMessages!, 300 - given)
      if (count === 0) return silence(signal)
      return { Messages: Array.from({ length: count }, () => message(String(++given))) }
    },
  })
  const consumer = start(t, { queueUrl: STANDARD })
  await until('it has many', () => given >= 110)
  await settled()
  assert.deepEqual([given, consumer.held], [110, 110])
  const handled = nextEvents(consumer, 'handled', 300)
  mayDelete.open()
  assert.ok((await inTime(handled, 'not all')).every(({ deleted }) => deleted))
})
