// Safety is in the rows: two workers that take the same buckets for theirs lose claims in vain, and nothing else.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { handle, kind, queue } from '../../src/index.ts'
import { broken, nothingLeft } from '../support/order.ts'
import { until } from '../support/until.ts'
import { count, scene } from '../support/worker.ts'

test('order and fence hold while two workers own every bucket', async (t) => {
  const { lh, worker, db } = await scene(t)
  const touch = kind<number>('touch', { ordered: true, backoff: { first: 1 } })
  await lh.configure([queue('touch', { ordered: true, ring: true })])
  // Each worker is shown an epoch in which it is alone, and no other seat to wait for.
  const { rows } = await db.pool.query(`select pg_get_functiondef('leasehold.ring_beat'::regproc) as text`)
  const [seats, others] = ["'seats', e.seats, ", 's.worker_id <> of_worker and s.epoch < latest.number']
  const text: string = rows[0].text
  assert.ok(text.includes(seats) && text.includes(others))
  const alone = "(select jsonb_agg(x) from jsonb_array_elements(e.seats) as x where (x ->> 'number')::int = mine)"
  await db.pool.query(text.replace(seats, `'seats', ${alone}, `).replace(others, 'false'))

  const running = new Set<string>()
  const ran = new Map<string, number[]>()
  const overlaps: string[] = []
  const by = [new Set<string>(), new Set<string>()]
  const workers = by.map((keys) =>
    worker(
      [
        handle(touch, async ({ input, partitionKey, attempt }) => {
          const key = partitionKey!
          if (running.has(key)) overlaps.push(key)
          running.add(key)
          keys.add(key)
          await new Promise((resolve) => setImmediate(resolve))
          running.delete(key)
          if (input % 7 === 0 && attempt === 1) throw new Error('once')
          ran.set(key, [...(ran.get(key) ?? []), input])
        }),
      ],
      { lease: '20s', concurrency: 4 },
    ),
  )
  await until('both own all', () => workers.every((each) => each.owns('touch', 'k0') !== undefined))
  const ROUNDS = 20
  for (let n = 1; n <= ROUNDS; n++) {
    await lh.enqueueMany(
      touch,
      Array.from({ length: 20 }, (_, key) => ({ input: n, partitionKey: `k${key}` })),
    )
  }
  await until('all are done', async () => (await count(db, 'from leasehold.job')) === 0)
  const expected = Array.from({ length: ROUNDS }, (_, n) => n + 1)
  for (const [key, numbers] of ran) assert.deepEqual(numbers, expected, key)
  assert.equal(ran.size, 20)
  assert.deepEqual(overlaps, [])
  assert.ok(
    by.every((keys) => keys.size > 0),
    'both had some',
  )
  assert.deepEqual(await broken(db), [])
  await nothingLeft(db)
})
