// Consumers in processes of their own, killed at each step of each way of handling. Effects are counted outside of the
// process, and effects outside the database also outside of that.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { type TestContext, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import type { SqsConsumer } from '../../src/sqs/index.ts'
import { gate } from '../support/gate.ts'
import { WorkerProcess } from '../support/processes.ts'
import { startProvider } from '../support/provider.ts'
import { until } from '../support/until.ts'
import { count } from '../support/worker.ts'
import { createSummaries, letClaimsAge, summaries } from '../tables/summaries.ts'
import type { Orders } from './programs/consumer.ts'
import { type Body, handleOf, type Place, type Way } from './programs/ways.ts'
import { isEmpty, next, nextEvents, type SqsScene, sqsScene } from './scene.ts'

const PROGRAM = fileURLToPath(new URL('programs/consumer.ts', import.meta.url))
const ROOT = fileURLToPath(new URL('../..', import.meta.url))

const ONE = { concurrency: 1 } as const

async function start({ undo, db, sqs }: SqsScene, orders: Omit<Orders, 'url' | 'sqs'>): Promise<WorkerProcess> {
  const child = spawn(
    process.execPath,
    ['--import', 'tsx', PROGRAM, JSON.stringify({ url: db.url, sqs: sqs.config, ...orders })],
    { cwd: ROOT, stdio: ['pipe', 'pipe', 'pipe', 'ipc'] },
  )
  const process_ = new WorkerProcess(child)
  undo.after(async () => {
    process_.kill('SIGKILL')
    await process_.ends()
  })
  await process_.prints('ready')
  return process_
}

/** It is dead, and after a while its messages are visible again. */
async function killed({ sqs }: SqsScene, process_: WorkerProcess, queueUrl: string): Promise<void> {
  assert.deepEqual(await process_.ends(), { code: null, signal: 'SIGKILL' })
  sqs.endTimeouts(queueUrl)
}

function successor(scene: SqsScene, queueUrl: string, way: Way, provider: string, keyed = false): SqsConsumer<Body> {
  const { db, lh, consumer } = scene
  const surroundings = { pool: db.pool, leasehold: lh, provider, keyed, at: () => {} }
  return consumer<Body>({ queueUrl, handle: handleOf(way, surroundings) })
}

/** How often the effect has happened. */
async function effects({ db, provider }: SqsScene, way: Way): Promise<number> {
  if (way === 'once per message') return count(db, 'from effect')
  if (way === 'into a queue') return count(db, `from leasehold.jobs where kind = 'task'`)
  return provider.calls.length
}

async function prepare(t: TestContext, rows: number): Promise<SqsScene> {
  const scene = await sqsScene(t)
  await createSummaries(scene.db, rows)
  await scene.db.pool.query('create table effect (id integer)')
  return scene
}

/** Runs the recovery, as a worker does regularly. */
async function recover({ db, send }: SqsScene, url: string): Promise<void> {
  await letClaimsAge(db)
  const publish = async (ids: readonly string[]) => {
    for (const id of ids) await send(url, { id: Number(id) })
  }
  await summaries.recovery({ publish }).run(db.pool)
}

/** handled: by the next delivery. recovered: it was dropped, and recovery sent another. gone: there was no other. */
type Then = 'handled' | 'already_handled' | 'recovered' | 'gone'

const CASES: readonly [Way, Place, Then, effects: number][] = [
  ['two phases', 'before the effect', 'recovered', 1],
  ['two phases', 'after the effect', 'recovered', 2],
  ['two phases', 'after the commit', 'already_handled', 1],
  ['two phases', 'before the delete', 'already_handled', 1],
  ['two phases', 'at the delete', 'gone', 1],
  ['one update', 'before the effect', 'handled', 1],
  ['one update', 'after the effect', 'handled', 2],
  ['one update', 'after the commit', 'already_handled', 1],
  ['one update', 'before the delete', 'already_handled', 1],
  ['once per message', 'before the effect', 'handled', 1],
  ['once per message', 'after the effect', 'handled', 1],
  ['once per message', 'after the commit', 'already_handled', 1],
  ['once per message', 'before the delete', 'already_handled', 1],
  ['into a queue', 'before the effect', 'handled', 1],
  ['into a queue', 'after the commit', 'already_handled', 1],
  ['into a queue', 'before the delete', 'already_handled', 1],
]

for (const [way, diesAt, then, times] of CASES) {
  test(`${way}, killed ${diesAt}: ${then}, ${times === 1 ? 'one effect' : 'two effects'}`, async (t) => {
    const scene = await prepare(t, 1)
    const { db, queue, send, provider } = scene
    const url = await queue()
    await send(url, { id: 1 })
    const first = await start(scene, { queueUrl: url, provider: provider.url, way, diesAt, options: ONE })
    await killed(scene, first, url)
    const second = successor(scene, url, way, provider.url)
    // The dead consumer's last long poll may have received a delivery.
    if (then === 'handled') assert.ok((await next(second, 'handled')).receiveCount > 1)
    else if (then !== 'gone') assert.ok((await next(second, 'already_handled')).receiveCount > 1)
    if (then === 'recovered') {
      const handled = next(second, 'handled')
      await recover(scene, url)
      await handled
    }
    assert.equal(await effects(scene, way), times)
    if (way === 'two phases' || way === 'one update') {
      assert.equal(await count(db, `from summary where status = 'completed'`), 1)
    }
    await isEmpty(scene, url)
  })
}

for (const way of ['two phases', 'one update'] as const) {
  test(`${way}, killed with ten in flight: nothing is lost, and a provider that is given keys acts once on each`, async (t) => {
    const scene = await prepare(t, 10)
    const { db, undo, queue, sendMany } = scene
    const hold = gate()
    const slow = await startProvider(undo, { answerAfter: () => hold.opened })
    const url = await queue()
    await sendMany(
      url,
      ids().map((id) => ({ id })),
    )
    const options = { concurrency: 10 }
    const first = await start(scene, { queueUrl: url, provider: slow.url, way, keyed: true, options })
    await until('all ten are in their effects', () => slow.calls.length === 10)
    first.kill('SIGKILL')
    await killed(scene, first, url)
    hold.open()
    const second = successor(scene, url, way, slow.url, true)
    const handled = nextEvents(second, 'handled', 10)
    if (way === 'two phases') {
      await nextEvents(second, 'already_handled', 10)
      await recover(scene, url)
    }
    await handled
    assert.equal(await count(db, `from summary where status = 'completed'`), 10)
    assert.deepEqual(
      [slow.calls.length, ids().map((id) => slow.happened(`summary-${id}`))],
      [20, new Array(10).fill(1)],
    )
    await isEmpty(scene, url)
  })
}

for (const [fifo, letters] of [
  [false, 2],
  [true, 1],
] as const) {
  test(`killed between dead letter and delete, ${fifo ? 'FIFO queues: one dead letter' : 'two dead letters'}`, async (t) => {
    const scene = await sqsScene(t)
    const { queue, send, consumer, depth, provider } = scene
    const [url, dead] = [await queue({ fifo }), await queue({ fifo })]
    await send(url, '{')
    const orders = { queueUrl: url, deadLetterQueueUrl: dead, provider: provider.url, options: ONE }
    const first = await start(scene, { ...orders, way: 'into a queue', diesAt: 'before the delete' })
    await killed(scene, first, url)
    const second = consumer({ queueUrl: url, deadLetterQueueUrl: dead, handle: () => {} })
    assert.equal((await next(second, 'dead_letter')).deleted, true)
    assert.deepEqual(await depth(dead), { visible: letters, inFlight: 0 })
    await isEmpty(scene, url)
  })
}

test('on SIGTERM messages that do not end in time are returned, and the process leaves', async (t) => {
  const scene = await prepare(t, 1)
  const { undo, queue, send } = scene
  const hold = gate()
  const slow = await startProvider(undo, { answerAfter: () => hold.opened })
  const url = await queue()
  await send(url, { id: 1 })
  const options = { concurrency: 1, grace: 0 }
  const first = await start(scene, { queueUrl: url, provider: slow.url, way: 'one update', options })
  await until('it is in its effect', () => slow.calls.length === 1)
  const second = successor(scene, url, 'one update', scene.provider.url)
  const handled = next(second, 'handled')
  first.kill('SIGTERM')
  const { reason, delayMs } = await first.prints('returned')
  assert.deepEqual([reason, delayMs], ['stopping', 0])
  assert.equal((await handled).receiveCount, 2)
  await first.prints('stopped')
  hold.open() // Its call gets its reply at last.
  assert.deepEqual(await first.ends(), { code: 0, signal: null })
  assert.equal(first.all('handled').length, 0)
  await isEmpty(scene, url)
})

function ids(): number[] {
  return Array.from({ length: 10 }, (_, index) => index + 1)
}
