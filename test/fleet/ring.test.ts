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
    const made = worker([handlerOf(name)], { label: name })
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
  // A busy machine may be slow to connect, which is announced as well.
  assert.deepEqual(
    log.filter(({ level, message }) => level !== 'info' && !/timeout expired|works again/.test(message)),
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

test('a worker finds its own suspects also while another has the duty to look for them', async (t) => {
  const { lh, db, worker } = await scene(t)
  await lh.configure([queue('touch', { ordered: true, ring: true })])
  const workers = ['a', 'b'].map((label) => worker([handle(touch, () => {})], { label, lease: '1s' }))
  const owned = (key: string) => workers.findIndex((each) => each.owns('touch', key) !== undefined)
  await until('both own keys', () => new Set(KEYS.map(owned)).size === 2 && !KEYS.map(owned).includes(-1))
  // As if the other had it for as long as this takes.
  const other = await db.connect()
  await other.query(`begin; select from leasehold.duty where name = 'suspects' for update`)
  // Fewer than one worker takes at once: for more of them it would call others to the duty.
  const keys = [0, 1].flatMap((of) => KEYS.filter((key) => owned(key) === of).slice(0, 5))
  await lh.pause({ queue: 'touch' })
  await lh.enqueueMany(
    touch,
    keys.map((key) => ({ input: { key, n: 0 }, partitionKey: key })),
  )
  await db.pool.query('update leasehold.job set crashes = 1')
  await lh.resume({ queue: 'touch' })
  await until('each has completed its own', () => workers.every(({ tally }) => tally.completed === 5))
  await other.query('rollback')
})
