import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Lane } from '../../src/db/lane.ts'
import { Fatal, handle, kind, queue } from '../../src/index.ts'
import { beat, registerWorker, workerStopped } from '../../src/jobs/registry.ts'
import { newWorker } from '../support/queue.ts'
import { scene } from '../support/worker.ts'

const REGISTERED = {
  version: '0.0.0',
  mode: 'worker',
  host: 'host',
  pid: 1,
  kinds: ['mail'],
  queues: ['mail'],
  memoryLimitBytes: null,
  drains: false,
} as const

const exact = (jobs: number) => ({ jobs, atLeast: false })

test('a queue counts its jobs by what keeps them', async (t) => {
  const { lh, db } = await scene(t)
  const mail = kind('mail', { maxAttempts: 2, backoff: { first: '1h', max: '1h' } })
  const orders = kind('orders', { ordered: true })
  await lh.configure([mail, orders, queue('orders', { ordered: true }), queue('idle')])
  await lh.enqueueMany(mail, [{ input: 1 }, { input: 2 }])
  const fails = handle(mail, (job) => {
    throw job.input === 1 ? new Fatal('x') : new Error('y')
  })
  await lh.drain([fails])
  await lh.enqueueMany(mail, [{ input: 3 }, { input: 4, priority: 1 }, { input: 5, delay: '1h' }, { input: 6 }])
  assert.equal((await lh.claim(mail, { limit: 1 })).length, 1)
  for (let n = 0; n < 3; n++) await lh.enqueue(orders, {}, { partitionKey: 'k' })
  await db.pool.query(`update leasehold.job set available_at = available_at - interval '90 s' where payload = '3'`)

  const [idle, ofMail, ofOrders] = await lh.stats()
  assert.deepEqual([idle!.queue, idle!.ready, idle!.oldestReadyMs], ['idle', exact(0), null])
  assert.deepEqual(
    [ofMail!.ready, ofMail!.processing, ofMail!.scheduled, ofMail!.retrying, ofMail!.deadLetters, ofMail!.diedRecently],
    [exact(2), exact(1), exact(1), exact(1), exact(1), exact(1)],
  )
  assert.ok(ofMail!.oldestReadyMs! >= 90_000)
  assert.deepEqual([ofOrders!.ready, ofOrders!.blocked, ofOrders!.ordered], [exact(1), exact(2), true])

  await lh.pause({ kind: mail })
  const [byKind] = await lh.stats({ queue: 'mail' })
  assert.deepEqual([byKind!.ready, byKind!.paused, byKind!.pausedAt], [exact(0), exact(2), null])
  await lh.pause({ queue: 'mail' })
  const [byQueue] = await lh.stats({ queue: 'mail' })
  assert.deepEqual([byQueue!.ready, byQueue!.paused, byQueue!.oldestReadyMs], [exact(0), exact(2), null])
})

test('jobs of a paused kind are neither ready nor old, also those whose worker died', async (t) => {
  const { lh, db } = await scene(t)
  const [poison, mail] = [kind('poison', { queue: 'mail' }), kind('mail')]
  await lh.enqueueMany(poison, [{ input: 1 }, { input: 2 }])
  await lh.enqueue(mail, {})
  await db.pool.query(`update leasehold.job set available_at = available_at - interval '1 hour' where kind = 'poison'`)
  await db.pool.query(`update leasehold.job set crashes = 1 where payload = '2'`)
  await lh.pause({ kind: poison })
  const [found] = await lh.stats()
  assert.deepEqual([found!.ready, found!.paused], [exact(1), exact(2)])
  assert.ok(found!.oldestReadyMs! < 3_600_000, 'that of the other kind')
  await lh.resume({ kind: poison })
  const [resumed] = await lh.stats()
  assert.deepEqual([resumed!.ready, resumed!.paused], [exact(3), exact(0)])
  assert.ok(resumed!.oldestReadyMs! >= 3_600_000)
})

test('a queue has the rates of the workers that run, by their last beats', async (t) => {
  const { lh, db } = await scene(t)
  const lane = new Lane(db.pool)
  await lh.configure([queue('mail'), queue('idle')])
  const vitals = { held: 0, running: 0, eventLoopMs: 0, memoryBytes: 1 }
  const beats = { a: { mail: [12.5, 0.5] }, b: { mail: [7.5, 0] }, gone: { mail: [100, 100] } } as const
  for (const [label, rates] of Object.entries(beats)) {
    const worker = newWorker(label)
    await registerWorker(lane, worker, REGISTERED)
    await beat(lane, worker, vitals, rates)
    if (label === 'gone') await workerStopped(lane, worker)
  }
  const rates = (await lh.stats()).map((found) => [found.queue, found.completedPerSecond, found.failedPerSecond])
  assert.deepEqual(rates, [
    ['idle', 0, 0],
    ['mail', 20, 0.5],
  ])
  await db.clock.advance('16 s')
  assert.equal((await lh.stats({ queue: 'mail' }))[0]!.completedPerSecond, 0, 'they were not seen for three beats')
})

test('counting stops at the cap', async (t) => {
  const { lh } = await scene(t)
  const mail = kind('mail')
  await lh.enqueueMany(
    mail,
    Array.from({ length: 12 }, (_, input) => ({ input, priority: input % 3 })),
  )
  const [capped] = await lh.stats({ countTo: 10 })
  assert.deepEqual(capped!.ready, { jobs: 10, atLeast: true })
  const [whole] = await lh.stats()
  assert.deepEqual(whole!.ready, exact(12))
  await assert.rejects(lh.stats({ countTo: 0 }), /countTo/)
  await assert.rejects(lh.stats({ qeue: 'x' } as never), /did you mean queue\?/)
})
