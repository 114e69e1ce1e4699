// Those without a seat on the ring: runOnce, drain and claims by hand take what has no owner.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { handle, kind, type Leasehold, queue } from '../../src/index.ts'
import { movableClock } from '../support/movable-clock.ts'
import { count, next, type Scene, scene } from '../support/worker.ts'

const touch = kind<string>('touch', { backoff: { first: 1 } })
const KEYS = ['a', 'b', 'c', 'd', 'e']

/** A queue on the ring, with five jobs of keys and two without. */
async function onRing(t: TestContext): Promise<Scene> {
  const made = await scene(t)
  await made.lh.configure([queue('touch', { ring: true })])
  return made
}

async function fill(lh: Leasehold): Promise<void> {
  await lh.enqueueMany(
    touch,
    KEYS.map((key) => ({ input: key, partitionKey: key })),
  )
  await lh.enqueueMany(touch, [{ input: 'no key' }, { input: 'no key' }])
}

/** A worker that owns all buckets and whose one handler never ends. */
async function owner({ worker, db }: Scene): Promise<void> {
  const other = kind<string>('other', { queue: 'touch' })
  const made = worker([handle(other, () => {})], { lease: '1h' })
  await next(made, 'gained', ({ buckets }) => buckets.length === 1_024)
  assert.equal(await count(db, 'from leasehold.seat'), 1)
}

for (const [name, take] of [
  ['drain', (lh: Leasehold, ran: string[]) => lh.drain([handle(touch, ({ input }) => void ran.push(input))])],
  [
    'runOnce',
    (lh: Leasehold, ran: string[]) =>
      lh.runOnce([handle(touch, ({ input }) => void ran.push(input))], { concurrency: 100 }),
  ],
  [
    'a claim by hand',
    async (lh: Leasehold, ran: string[]) => {
      for (const job of await lh.claim(touch, { limit: 100 })) {
        ran.push(job.input)
        await job.complete()
      }
    },
  ],
] as const) {
  test(`${name} takes all jobs while no worker has a seat, and those without a key otherwise`, async (t) => {
    const made = await onRing(t)
    const ran: string[] = []
    await fill(made.lh)
    await take(made.lh, ran)
    assert.deepEqual(ran.sort(), [...KEYS, 'no key', 'no key'])

    ran.length = 0
    await owner(made)
    await fill(made.lh)
    const fresh = made.leasehold()
    await take(fresh, ran)
    assert.deepEqual(ran, ['no key', 'no key'])
    assert.equal(await count(made.db, 'from leasehold.job'), KEYS.length)

    // Suspects obey the ring as well.
    await made.db.pool.query('update leasehold.job set crashes = 1')
    await fresh.enqueue(touch, 'no key')
    await take(fresh, ran)
    assert.equal(ran.length, 3)
    assert.equal(await count(made.db, 'from leasehold.job'), KEYS.length)
    await made.db.pool.query(
      "update leasehold.seat set expires_at = '-infinity'; update leasehold.queue set ring = 'off'",
    )
    await take(made.leasehold(), ran)
    assert.equal(ran.length, 3 + KEYS.length)
  })
}

test('claims by hand look at the ring every few seconds, not each time', async (t) => {
  const made = await onRing(t)
  const clock = movableClock(t, { stands: true })
  await fill(made.lh)
  const claim = async () => (await made.lh.claim(touch)).length
  assert.equal(await claim(), 1)
  await made.db.pool.query(`
    insert into leasehold.seat (number, worker_id, label, weight, queues, epoch, taken_at, expires_at)
    values (1, gen_random_uuid(), '', 1, array['touch'], 0, now(), now() + interval '1 hour')`)
  for (let n = 2; n <= 5; n++) assert.equal(await claim(), 1)
  clock.pass(2_501)
  const before = await count(made.db, "from leasehold.jobs where partition_key is not null and status = 'pending'")
  while ((await claim()) > 0);
  assert.equal(
    await count(made.db, "from leasehold.jobs where partition_key is not null and status = 'pending'"),
    before,
  )
})
