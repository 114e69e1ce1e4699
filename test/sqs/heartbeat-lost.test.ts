// When the visibility of a message expires while its handler runs, another consumer receives it: the result of each way of
// handling.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { z } from 'zod'
import { Inbox } from '../../src/inbox/index.ts'
import { kind } from '../../src/index.ts'
import { inOneTransaction, inOneUpdate, inTwoPhases, intoQueue } from '../../src/sqs/index.ts'
import { gate } from '../support/gate.ts'
import { type MovableClock, movableTimers } from '../support/movable-clock.ts'
import { callProvider } from '../support/provider.ts'
import { until } from '../support/until.ts'
import { count } from '../support/worker.ts'
import { createSummaries, summaries, summary } from '../tables/summaries.ts'
import { isEmpty, next, type SqsScene, sqsScene, through } from './scene.ts'

const body = z.object({ id: z.number() })
/** With no room for another one, so that none of its receives takes the redelivered message. */
const ONE = { concurrency: 1 } as const
const VISIBILITY_MS = 30_000
const ARROWS = { pending: ['completed'] } as const

interface OwnScene extends SqsScene {
  readonly clock: MovableClock
}

async function ownScene(t: TestContext): Promise<OwnScene> {
  const clock = movableTimers(t)
  return { ...(await sqsScene(t)), clock }
}

/** The handler runs, and its visibility has expired: other consumers may receive the message. */
async function losesIt({ clock, sqs }: OwnScene, url: string, started: Promise<void>): Promise<void> {
  await started
  clock.pass(VISIBILITY_MS)
  sqs.endTimeouts(url)
}

/** A client whose extensions all fail, and what else was sent through it. */
function withoutHeartbeat({ sqs }: SqsScene) {
  const sent: string[] = []
  const client = through(sqs.client, (name, send) => {
    sent.push(name)
    return name === 'ChangeMessageVisibilityBatch' ? Promise.reject(new Error('unreachable')) : send()
  })
  return { client, sent }
}

test('a function: it is aborted, another delivery does the work, and the stale receipt deletes nothing', async (t) => {
  const scene = await ownScene(t)
  const { queue, send, consumer, provider } = scene
  const url = await queue()
  const { client, sent } = withoutHeartbeat(scene)
  const [started, aborted, late] = [gate(), gate(), gate()]
  const slow = consumer(
    {
      ...ONE,
      queueUrl: url,
      handle: async ({ signal }) => {
        signal.addEventListener('abort', aborted.open)
        started.open()
        await late.opened // It ignores its signal and returns normally.
      },
    },
    client,
  )
  const [expired, handledLate] = [next(slow, 'expired'), next(slow, 'handled')]
  const messageId = await send(url, {})
  await losesIt(scene, url, started.opened)
  assert.equal((await expired).messageId, messageId)
  await aborted.opened
  const other = consumer({ queueUrl: url, handle: () => callProvider(provider.url, 'work') })
  const [redelivered, handled] = [next(other, 'redelivered'), next(other, 'handled')]
  assert.deepEqual([(await redelivered).receiveCount, (await handled).deleted], [2, true])
  late.open()
  assert.equal((await handledLate).deleted, false)
  assert.ok(!sent.includes('DeleteMessageBatch'), sent.join())
  assert.equal(provider.happened(), 1)
  await isEmpty(scene, url)
})

test('in two phases: the effect goes on and happens once, since the next consumer finds the row claimed', async (t) => {
  const scene = await ownScene(t)
  const { db, queue, send, consumer, provider } = scene
  await createSummaries(db, 1)
  const url = await queue()
  const [started, late] = [gate(), gate()]
  let wasAborted: boolean | undefined
  const handle = inTwoPhases<{ id: number }, 'result' | 'completed_at'>(summaries, db.pool, {
    id: ({ body }) => body.id,
    effect: async (_, { signal }) => {
      await callProvider(provider.url, 'summary')
      started.open()
      await late.opened
      wasAborted = signal.aborted
      return { result: 'done' }
    },
  })
  const slow = consumer({ ...ONE, queueUrl: url, body, handle }, withoutHeartbeat(scene).client)
  const [expired, handledLate] = [next(slow, 'expired'), next(slow, 'handled')]
  await send(url, { id: 1 })
  await losesIt(scene, url, started.opened)
  await expired
  const other = consumer({ queueUrl: url, body, handle })
  assert.equal((await next(other, 'already_handled')).deleted, true)
  assert.equal((await summary(db, 1)).status, 'processing')
  late.open()
  assert.equal((await handledLate).deleted, false)
  assert.equal((await summary(db, 1)).status, 'completed')
  assert.deepEqual([wasAborted, provider.happened()], [false, 1])
  await isEmpty(scene, url)
})

test('in one update: the work is done twice, the row is changed once, and no failure is recorded', async (t) => {
  const scene = await ownScene(t)
  const { db, queue, send, consumer, provider } = scene
  await createSummaries(db, 1)
  const url = await queue()
  const started = gate()
  const slowWork = inOneUpdate<{ id: number }, typeof ARROWS, 'pending', 'result' | 'completed_at'>(
    summaries,
    db.pool,
    {
      id: ({ body }) => body.id,
      from: 'pending',
      to: 'completed',
      work: async ({ signal }) => {
        await callProvider(provider.url, 'summary')
        const aborted = new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
        started.open()
        await aborted
        return { result: 'never' }
      },
    },
  )
  const slow = consumer({ ...ONE, queueUrl: url, body, handle: slowWork }, withoutHeartbeat(scene).client)
  const stopped = new Promise((resolve) => slow.on('expired', () => resolve(slow.stop()))) // Otherwise it would receive it again.
  await send(url, { id: 1 })
  await losesIt(scene, url, started.opened)
  await stopped
  assert.deepEqual([(await summary(db, 1)).status, (await summary(db, 1)).attempt_count], ['pending', 0])
  const other = consumer({
    queueUrl: url,
    body,
    handle: inOneUpdate(summaries, db.pool, {
      id: ({ body }) => body.id,
      from: 'pending',
      to: 'completed',
      work: async () => ({ result: JSON.stringify(await callProvider(provider.url, 'summary')) }),
    }),
  })
  assert.equal((await next(other, 'handled')).receiveCount, 2)
  const { status, attempt_count } = await summary(db, 1)
  assert.deepEqual([status, attempt_count, provider.happened()], ['completed', 0, 2])
  await isEmpty(scene, url)
})

test('once per message: the second waits for the first, and is already handled', async (t) => {
  const scene = await ownScene(t)
  const { db, lh, queue, send, consumer } = scene
  await db.pool.query('create table effect ()')
  const url = await queue()
  const [started, late] = [gate(), gate()]
  let inside = 0
  const handle = inOneTransaction(new Inbox(lh, { source: 'test' }), async (tx) => {
    inside++
    await tx.query('insert into effect default values')
    started.open()
    await late.opened
  })
  const slow = consumer({ ...ONE, queueUrl: url, handle }, withoutHeartbeat(scene).client)
  const [expired, handledLate] = [next(slow, 'expired'), next(slow, 'handled')]
  await send(url, {})
  await losesIt(scene, url, started.opened)
  await expired
  const other = consumer({ queueUrl: url, handle })
  const already = next(other, 'already_handled')
  await until('the second waits', async () => {
    const waits = `from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
    return (await count(db, waits)) === 1
  })
  late.open()
  assert.deepEqual([(await handledLate).deleted, (await already).deleted, inside], [false, true, 1])
  assert.equal(await count(db, 'from effect'), 1)
  await isEmpty(scene, url)
})

test('into a queue of ours: the job is there already', async (t) => {
  const scene = await ownScene(t)
  const { db, lh, queue, send, consumer } = scene
  const url = await queue()
  const [started, late] = [gate(), gate()]
  const enqueue = intoQueue(new Inbox(lh, { source: 'test' }), kind('task'))
  const slow = consumer<undefined>(
    {
      ...ONE,
      queueUrl: url,
      handle: async (message) => {
        const answer = await enqueue(message)
        started.open()
        await late.opened
        return answer
      },
    },
    withoutHeartbeat(scene).client,
  )
  const [expired, handledLate] = [next(slow, 'expired'), next(slow, 'handled')]
  await send(url, {})
  await losesIt(scene, url, started.opened)
  await expired
  const other = consumer<undefined>({ queueUrl: url, handle: enqueue })
  assert.equal((await next(other, 'already_handled')).deleted, true)
  late.open()
  assert.equal((await handledLate).deleted, false)
  assert.equal(await count(db, 'from leasehold.jobs'), 1)
  await isEmpty(scene, url)
})
