// The server bounds the bytes that a claim returns; the worker bounds the bytes that it prefetches.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Lane } from '../../src/db/lane.ts'
import { handle, kind } from '../../src/index.ts'
import type { ClaimedJob } from '../../src/jobs/job.ts'
import { HeldJob } from '../../src/worker/job.ts'
import { Slots } from '../../src/worker/slots.ts'
import { suiteDatabase } from '../support/database.ts'
import { claimNext, enqueueMany } from '../support/queue.ts'

const db = await suiteDatabase()
const lane = new Lane(db.pool)

const MIB = 2 ** 20
const FILL = `insert into leasehold.job (available_at, created_at, partition_bucket, queue, kind, payload)
  select now(), now(), 0, $1, 'mail', to_jsonb($2::text) from generate_series(1, $3::int)`

/** How many jobs each claim of up to 40 returns, until there are none. */
async function batches(queue: string): Promise<number[]> {
  const sizes: number[] = []
  for (;;) {
    const jobs = await claimNext(lane, { queues: [queue], kinds: ['mail'], limit: 40 })
    if (jobs.length === 0) return sizes
    sizes.push(jobs.length)
  }
}

test('inputs of a claim come to 16 MiB at most, however well they are compressed', async () => {
  // Of a mebibyte each, as it is printed.
  await db.pool.query(FILL, ['repeated', 'x'.repeat(MIB - 2), 40])
  assert.deepEqual(await batches('repeated'), [16, 16, 8])
  const digits = Array.from({ length: (MIB - 2) / 2 }, (_, n) => String.fromCharCode(40 + ((n * n * 31) % 50))).join('')
  await db.pool.query(FILL, ['varied', digits + digits.split('').reverse().join(''), 40])
  assert.deepEqual(await batches('varied'), [16, 16, 8])
})

test('a job that is too large by itself is claimed alone', async () => {
  await db.pool.query(FILL, ['huge', 'x'.repeat(20 * MIB), 2])
  assert.deepEqual(await batches('huge'), [1, 1])
})

test('the bytes of ordinary inputs do not matter', async () => {
  await enqueueMany(lane, 1_000, { queue: 'ordinary', input: { note: 'x'.repeat(300) } })
  const jobs = await claimNext(lane, { queues: ['ordinary'], kinds: ['mail'], limit: 1_000 })
  assert.equal(jobs.length, 1_000)
})

test('a worker claims ahead no more than 32 MiB of inputs', (t) => {
  for (const { bytes, ahead } of [
    { bytes: 300, ahead: 2_000 },
    { bytes: MIB, ahead: 32 },
  ]) {
    let now = 1_000
    t.mock.method(performance, 'now', () => now)
    const handler = handle(kind('task'), () => {})
    const slots = new Slots(new Map([['task', handler]]), 10, 2_000)
    const payload = 'x'.repeat(bytes)
    // A thousand jobs a turn, and a turn takes ten milliseconds.
    for (let turn = 0; turn < 50; turn++) {
      for (let n = 0; n < 1_000; n++) {
        const claimed = { kind: 'task', payload } as ClaimedJob
        slots.add(new HeldJob(claimed, handler, {} as never))
        const job = slots.start(0)!
        slots.ran(job)
        slots.release(job)
      }
      now += 10
      slots.demand()
    }
    assert.equal(slots.demand()!.limit, Math.min(1_000, 10 + ahead), `inputs of ${bytes} bytes`)
    t.mock.restoreAll()
  }
})
