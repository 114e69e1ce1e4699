// How messages are extended: which, for how long, and how long to wait for SQS.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type { HeldMessage } from '../../src/consumer/held.ts'
import { Visibility } from '../../src/consumer/visibility.ts'
import type { LogEntry } from '../../src/index.ts'
import type { Refusal } from '../../src/runtime/batcher.ts'
import type { SqsClient } from '../../src/sqs/index.ts'
import { SqsQueue } from '../../src/sqs/queue.ts'
import { gate } from '../support/gate.ts'
import { movableTimers } from '../support/movable-clock.ts'
import { until } from '../support/until.ts'
import { inTime } from '../support/worker.ts'
import { next, nextEvents, silence } from './scene.ts'
import { heldMessage, message, refusing, STANDARD, scripted, settled } from './scripted.ts'

const TWELVE_HOURS_S = 43_200
const MANY_MINUTES_MS = 1_800_000
/** Of 30 s, and a little more: then it is time to extend. */
const A_THIRD_MS = 10_100

interface Extension {
  readonly entries: readonly { readonly receipt: string; readonly seconds: number }[]
  readonly withinMs: number
  readonly signal: AbortSignal
}

/** A running Visibility, and its requests. */
function extending(t: TestContext, timeoutMs: number, answer: (extension: Extension) => Promise<readonly Refusal[]>) {
  const extensions: Extension[] = []
  const expired: string[] = []
  const extend = (entries: Extension['entries'], withinMs: number, signal: AbortSignal) => {
    const extension = { entries, withinMs, signal }
    extensions.push(extension)
    return answer(extension)
  }
  const queue = Object.assign(new SqsQueue({} as SqsClient, 'http://localhost/q'), { extend })
  const visibility = new Visibility(queue as unknown as SqsQueue, timeoutMs, 3_600_000_000, {
    extended: () => {},
    expired: ({ delivery: { id } }) => expired.push(id),
    problem: (error) => assert.fail(String(error)),
  })
  visibility.start()
  t.after(() => visibility.stop())
  return { visibility, extensions, expired }
}

/** Received so long ago, and invisible for so long from now on. */
function held(id: string, agoMs: number, forMs: number): HeldMessage {
  const now = performance.now()
  return heldMessage(id, now - agoMs, agoMs + forMs)
}

test('an extension has at most ten seconds, and is aborted when the consumer stops', async (t) => {
  const { visibility, extensions } = extending(t, MANY_MINUTES_MS, ({ signal }) => silence(signal))
  await visibility.hold([held('due', MANY_MINUTES_MS * 0.5, MANY_MINUTES_MS * 0.5)])
  await until('it is extended', () => extensions.length === 1)
  assert.deepEqual([extensions[0]!.withinMs, extensions[0]!.signal.aborted], [10_000, false])
  const stopped = visibility.stop()
  assert.equal(extensions[0]!.signal.aborted, true)
  await inTime(stopped, 'it does not stop')
})

test('a short timeout is not spent waiting for an extension', async (t) => {
  const { visibility, extensions } = extending(t, 24_000, ({ signal }) => silence(signal))
  await visibility.hold([held('due', 10_000, 14_000)])
  await until('it is extended', () => extensions.length === 1)
  assert.equal(extensions[0]!.withinMs, 8_000)
})

test('a message returned while others are extended is not extended any more', async (t) => {
  const answers = gate()
  const { visibility, extensions } = extending(t, MANY_MINUTES_MS, () => answers.opened.then(() => []))
  const many = Array.from({ length: 200 }, (_, index) => held(`${index}`, MANY_MINUTES_MS / 2, MANY_MINUTES_MS / 2))
  await visibility.hold(many)
  await until('as many are asked for as can be at a time', () => extensions.length === 16)
  for (const one of many.slice(165)) visibility.release(one)
  answers.open()
  await until('the others are asked for', () => extensions.length === 17)
  await settled()
  const asked = extensions.flatMap(({ entries }) => entries.map(({ receipt }) => Number(receipt)))
  assert.deepEqual(
    asked.toSorted((a, b) => a - b),
    [...new Array(165).keys()],
  )
})

test('SQS hides a message for twelve hours in all: extensions use the rest of them', () => {
  const queue = new SqsQueue({} as SqsClient, 'http://localhost/q')
  const now = performance.now()
  const received = (agoS: number) => held('m', agoS * 1_000, 1_000)
  for (const [agoS, wantedS, seconds] of [
    [0, 30, 30],
    [0, 0, 0],
    [0, TWELVE_HOURS_S, TWELVE_HOURS_S - 1],
    [TWELVE_HOURS_S - 20, 30, 19],
    [TWELVE_HOURS_S - 20, 5, 5],
    [TWELVE_HOURS_S, 30, 0],
    [2 * TWELVE_HOURS_S, 30, 0],
  ] as const) {
    const asked = queue.secondsFor(received(agoS), now, wantedS * 1_000)
    // A moment has passed since, and whole seconds are asked for.
    assert.ok(asked === seconds || asked === seconds - 1, `${wantedS} s after ${agoS} s: ${asked}`)
  }
})

test('at the end of its twelve hours a message is neither extended nor given up early', async (t) => {
  const { visibility, extensions, expired } = extending(t, 30_000, async () => [])
  const old = held('old', (TWELVE_HOURS_S - 16) * 1_000, 15_000)
  await visibility.hold([old])
  await visibility.hold([held('due', 15_000, 15_000)])
  await until('the other one is extended', () => extensions.length === 1)
  assert.deepEqual(
    extensions[0]!.entries.map(({ receipt, seconds }) => [receipt, seconds]),
    [['due', 30]],
  )
  await settled()
  assert.deepEqual([expired, old.isGone, visibility.isInTime(old)], [[], false, true])
})

test('a return with a delay of twelve hours hides the message a little less', async (t) => {
  const { did, start } = scripted([message('m')])
  const consumer = start(t, { queueUrl: STANDARD, handle: () => ({ outcome: 'again', after: '12h' }) })
  const { delayMs, confirmed } = await next(consumer, 'returned')
  assert.ok(confirmed && delayMs < TWELVE_HOURS_S * 1_000 && delayMs > (TWELVE_HOURS_S - 60) * 1_000, String(delayMs))
  assert.deepEqual(did, [`m in ${delayMs / 1_000} s`])
})

test('an extension refused because its message was just deleted expires nothing', async (t) => {
  const clock = movableTimers(t)
  const [deleting, refused] = [gate(), gate()]
  const { start } = scripted([message('m')], {
    DeleteMessageBatch: (_, usual) => {
      deleting.open()
      return refused.opened.then(usual)
    },
    ChangeMessageVisibilityBatch: ({ asked }) => {
      refused.open()
      return refusing(asked, ['m'], 'MessageNotInflight', true)
    },
  })
  const consumer = start(t, { queueUrl: STANDARD })
  const handled = next(consumer, 'handled')
  await deleting.opened
  clock.pass(A_THIRD_MS)
  assert.equal((await handled).deleted, true)
  assert.equal(consumer.counts().expired, 0)
})

test('a throttled extension is not a refusal, also with SenderFault', async (t) => {
  const clock = movableTimers(t)
  let extensions = 0
  const { start } = scripted([message('m')], {
    ChangeMessageVisibilityBatch: ({ asked }, usual) =>
      ++extensions === 1 ? refusing(asked, ['m'], 'RequestThrottled', true) : usual(),
  })
  const [started, enough] = [gate(), gate()]
  const consumer = start(t, {
    queueUrl: STANDARD,
    handle: () => {
      started.open()
      return enough.opened
    },
  })
  const [problem, extended] = [next(consumer, 'problem'), next(consumer, 'extended')]
  await started.opened
  clock.pass(A_THIRD_MS)
  assert.equal((await problem).doing, 'extending visibility')
  await extended
  enough.open()
  assert.equal((await next(consumer, 'handled')).deleted, true)
  assert.equal(consumer.counts().expired, 0)
})

test('an error thrown after the message expired is logged', async (t) => {
  const clock = movableTimers(t)
  const log: LogEntry[] = []
  const { start } = scripted([message('m')], {
    ChangeMessageVisibilityBatch: ({ asked }) => refusing(asked, ['m'], 'MessageNotInflight', true),
  })
  const started = gate()
  const consumer = start(t, {
    queueUrl: STANDARD,
    log: (entry) => log.push(entry),
    handle: ({ signal }) => {
      started.open()
      return new Promise((_, reject) => signal.addEventListener('abort', () => reject(new Error('the real bug'))))
    },
  })
  const expired = next(consumer, 'expired')
  await started.opened
  clock.pass(A_THIRD_MS)
  await expired
  await until('it is logged', () => log.some(({ error }) => String(error) === 'Error: the real bug'))
  assert.equal(consumer.counts().returned, 0)
})

test('a handler that takes longer than its timeout is aborted then, however long the visibility is', async (t) => {
  const { start } = scripted([message('1')])
  const consumer = start(t, {
    queueUrl: STANDARD,
    visibility: '12h',
    timeout: 100,
    handle: () => new Promise<void>(() => {}),
  })
  assert.equal((await next(consumer, 'expired')).messageId, '1')
})

test('extending hundreds of messages causes no leak warning of Node', async (t) => {
  const warnings: string[] = []
  const onWarning = (warning: Error) => warnings.push(warning.message)
  process.on('warning', onWarning)
  t.after(() => process.off('warning', onWarning))
  const [go, all] = [gate(), gate()]
  let [given, asked] = [0, 0]
  const { start } = scripted([], {
    ReceiveMessage: ({ signal }) =>
      given < 200 ? { Messages: Array.from({ length: 10 }, () => message(`m${given++}`)) } : silence(signal),
    ChangeMessageVisibilityBatch: async (_, usual) => {
      if (++asked === 16) all.open()
      await go.opened
      return usual()
    },
  })
  const consumer = start(t, { queueUrl: STANDARD, concurrency: 200, visibility: '1s', handle: () => go.opened })
  await inTime(all.opened, 'not sixteen side by side')
  const handled = nextEvents(consumer, 'handled', 1)
  go.open()
  await handled
  assert.deepEqual(warnings, [])
})

test('a message is not returned while its extension is in flight, which would override the return', async (t) => {
  const clock = movableTimers(t)
  const [started, fail, answer] = [gate(), gate(), gate()]
  const order: string[] = []
  const { start } = scripted([message('1')], {
    ChangeMessageVisibilityBatch: async ({ asked }, usual) => {
      if (asked.Entries![0]!.VisibilityTimeout !== 30) {
        order.push('handed back')
        return usual()
      }
      fail.open()
      await answer.opened
      order.push('extended')
      return usual()
    },
  })
  const consumer = start(t, {
    queueUrl: STANDARD,
    backoff: { first: '15m' },
    handle: async () => {
      started.open()
      await fail.opened
      throw new Error('no')
    },
  })
  const returned = next(consumer, 'returned')
  await started.opened
  clock.pass(A_THIRD_MS)
  await inTime(fail.opened, 'no extension')
  await settled()
  answer.open()
  await returned
  assert.deepEqual(order, ['extended', 'handed back'])
})
