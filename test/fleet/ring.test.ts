// The ring as workers live on it: who claims what, and when that changes.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { bucketOf } from '../../src/core/bucket.ts'
import { handle, kind, queue } from '../../src/index.ts'
import { until } from '../support/until.ts'
import { scene } from '../support/worker.ts'

const touch = kind<{ key: string; n: number }>('touch', { ordered: true, backoff: { first: 1 } })
const KEYS = Array.from({ length: 200 }, (_, n) => `user:${n}`)

test('each key has one worker, as long as the same workers run', async (t) => {
  const { lh, worker, log } = await scene(t)
  await lh.configure([queue('touch', { ordered: true, ring: true })])
  const by = new Map<string, Set<string>>()
  const handlerOf = (name: string) =>
    handle(touch, async ({ input: { key } }) => {
      by.set(key, (by.get(key) ?? new Set()).add(name))
    })
  const owned: Record<string, number> = {}
  const start = (name: string) => {
    const made = worker([handlerOf(name)], { label: name, lease: '2s' })
    owned[name] = 0
    made.on('gained', ({ buckets }) => (owned[name]! += buckets.length))
    made.on('lost', ({ buckets }) => (owned[name]! -= buckets.length))
    return made
  }
  const workers = ['a', 'b', 'c'].map(start)
  await until(
    'all buckets have owners',
    () => Object.values(owned).every((n) => n > 0) && Object.values(owned).reduce((a, b) => a + b) === 1_024,
  )
  for (let n = 0; n < 3; n++) {
    await lh.enqueueMany(
      touch,
      KEYS.map((key) => ({ input: { key, n }, partitionKey: key })),
    )
  }
  await until('all are completed', () => workers.reduce((sum, { tally }) => sum + tally.completed, 0) === 600)
  for (const key of KEYS) {
    const names = [...by.get(key)!]
    assert.equal(names.length, 1, key)
    const [owner] = workers.filter((each) => each.owns('touch', key) !== undefined)
    assert.equal(owner!.owns('touch', key)!.bucket, bucketOf(key))
    assert.equal(owner!.identity.label, names[0], key)
    assert.equal((await lh.ownerOf('touch', key))!.label, names[0])
  }
  assert.deepEqual(
    log.filter(({ level }) => level === 'error' || level === 'warn'),
    [],
  )
})

test('suspects are claimed by their owners, whichever worker keeps the house', async (t) => {
  const { lh, db, worker } = await scene(t)
  await lh.configure([queue('touch', { ordered: true, ring: true })])
  const by = new Map<string, string>()
  const workers = ['a', 'b'].map((label) =>
    worker([handle(touch, ({ input: { key } }) => void by.set(key, label))], { label, lease: '1s' }),
  )
  const owners = () => KEYS.map((key) => workers.findIndex((each) => each.owns('touch', key) !== undefined))
  await until('both own keys', () => new Set(owners()).size === 2 && !owners().includes(-1))
  // As if a worker had died with them: enqueued while the queue is paused, and marked before any worker sees them.
  await lh.pause({ queue: 'touch' })
  await lh.enqueueMany(
    touch,
    KEYS.map((key) => ({ input: { key, n: 0 }, partitionKey: key })),
  )
  await db.pool.query('update leasehold.job set crashes = 1')
  await lh.resume({ queue: 'touch' })
  await until('all are completed', () => workers.reduce((sum, { tally }) => sum + tally.completed, 0) === KEYS.length)
  assert.deepEqual(new Set(by.values()), new Set(['a', 'b']))
})
