// The ring through PgBouncer in transaction mode: seats are rows and no session holds them, and nothing is announced.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { handle, kind, queue } from '../../src/index.ts'
import { startPgBouncer } from '../../tools/pgbouncer.ts'
import { needsPgBouncer } from '../support/optional-program.ts'
import { until } from '../support/until.ts'
import { nothingHeld, scene } from '../support/worker.ts'

const touch = kind<{ key: string; n: number }>('touch', { ordered: true })
const KEYS = Array.from({ length: 100 }, (_, n) => `user:${n}`)

test(
  'through a transaction pooler each key has one worker, and a worker that leaves is replaced',
  await needsPgBouncer(),
  async (t) => {
    const { db, leasehold, worker, undo } = await scene(t)
    const bouncer = await startPgBouncer({ url: db.url, poolSize: 3 })
    undo.after(() => bouncer.stop())
    const pooled = leasehold({ connectionString: bouncer.url, prepare: false })
    await pooled.configure([queue('touch', { ordered: true, ring: true })])
    const seen = new Map<string, { readonly by: Set<string>; readonly order: number[] }>(
      KEYS.map((key) => [key, { by: new Set(), order: [] }]),
    )
    const start = (label: string) => {
      const handler = handle(touch, ({ input: { key, n } }) => {
        seen.get(key)!.by.add(label)
        seen.get(key)!.order.push(n)
      })
      return worker([handler], { label, poll: 50 }, pooled)
    }
    const enqueue = (n: number) =>
      pooled.enqueueMany(
        touch,
        KEYS.map((key) => ({ input: { key, n }, partitionKey: key })),
      )
    const [stays, leaves] = [start('stays'), start('leaves')]
    const owners = (key: string) => [stays, leaves].filter((each) => each.owns('touch', key) !== undefined).length
    await until(
      'both own keys, and each key has an owner',
      () => [stays, leaves].every((each) => KEYS.some((key) => each.owns('touch', key))) && KEYS.every(owners),
    )
    for (const n of [0, 1, 2]) await enqueue(n)
    await until('all are completed', () => stays.tally.completed + leaves.tally.completed === 3 * KEYS.length)
    for (const [key, { by }] of seen) assert.equal(by.size, 1, key)
    await leaves.stop()
    await enqueue(3)
    await until('the other completes them', () => stays.tally.completed + leaves.tally.completed === 4 * KEYS.length)
    for (const [key, { order }] of seen) assert.deepEqual(order, [0, 1, 2, 3], key)
    await stays.stop()
    await nothingHeld(db)
  },
)
