// Several locks at once, taken in one fixed order.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type pg from 'pg'
import { TransactionConflictError } from '../../../src/index.ts'
import { WriteGuard } from '../../../src/tables/index.ts'
import { suiteDatabase, waitUntilBlocked } from '../../support/database.ts'
import { gate } from '../../support/gate.ts'
import { createIncidents, openIncident, pidOf } from '../../support/incidents.ts'

const db = await suiteDatabase()
await createIncidents(db)
const guard = new WriteGuard(db.pool, { lockTimeout: '1m' })

/** Sorted by their hashes. */
async function hashed(keys: readonly string[]): Promise<{ key: string; hash: string }[]> {
  const { rows } = await db.pool.query(
    "select key, hashtextextended('leasehold.guard:' || key, 0) as hash from unnest($1::text[]) as key order by hash",
    [keys],
  )
  return rows
}

/** The hashes that a session has locked, or waits for. */
async function locksOf(pid: number, granted: boolean): Promise<string[]> {
  const { rows } = await db.pool.query(
    `select ((classid::bigint << 32) | objid::bigint)::text as hash from pg_locks
      where locktype = 'advisory' and pid = $1 and granted = $2 order by 1`,
    [pid, granted],
  )
  return rows.map((row) => row.hash)
}

function run(tx: pg.Client, lock: readonly string[], by: string) {
  const nothing = async () => []
  return guard.run({ site: 'several', lock, seen: [], reread: nothing, write: openIncident(1, by), tx })
}

test('every key is locked, and each once', async () => {
  const tx = await db.connect()
  await tx.query('begin')
  const keys = Array.from({ length: 20 }, (_, n) => `k${n}`)
  await run(tx, [...keys, ...keys], 'one')
  const held = await locksOf(pidOf(tx), true)
  assert.deepEqual(held, (await hashed(keys)).map(({ hash }) => hash).sort())
  await tx.query('rollback')
})

test('whichever lock is taken elsewhere, the ones before it in the order are held, and none after', async () => {
  const ladder = await hashed(Array.from({ length: 12 }, (_, n) => `rung:${n}`))
  const keys = ladder.map(({ key }) => key)
  for (const [rung, given] of [
    [3, keys],
    [6, keys.toReversed()],
    [9, keys.toSorted()],
  ] as const) {
    const [other, tx] = [await db.connect(), await db.connect()]
    await other.query('begin')
    await other.query('select pg_advisory_xact_lock($1::bigint)', [ladder[rung]!.hash])
    await tx.query('begin')
    const waiting = run(tx, given, 'climber')
    await waitUntilBlocked(other, pidOf(tx))
    const held = await locksOf(pidOf(tx), true)
    assert.deepEqual(
      held.toSorted(),
      ladder
        .slice(0, rung)
        .map(({ hash }) => hash)
        .sort(),
    )
    assert.deepEqual(await locksOf(pidOf(tx), false), [ladder[rung]!.hash])
    await other.query('commit')
    await waiting
    await tx.query('rollback')
  }
})

test('two writers that name the locks in opposite orders do not deadlock', async () => {
  const [low, middle, high] = await hashed(['a', 'b', 'c'])
  const [keeper, a, b] = [await db.connect(), await db.connect(), await db.connect()]
  // The middle one is taken. A has the low one and waits. B, if it began at its own end, would now take the high one; and
  // then, with the middle one free, each would wait for the other.
  await keeper.query('begin')
  await keeper.query('select pg_advisory_xact_lock($1::bigint)', [middle!.hash])
  await a.query('begin')
  const first = run(a, [low!.key, middle!.key, high!.key], 'A')
  await waitUntilBlocked(keeper, pidOf(a))
  await b.query('begin')
  const second = run(b, [high!.key, middle!.key, low!.key], 'B')
  await waitUntilBlocked(keeper, pidOf(b))
  assert.deepEqual(await locksOf(pidOf(b), true), [])
  await keeper.query('commit')
  await first
  await a.query('commit')
  await second
  await b.query('commit')
})

test('two guards inside others, with their keys crossed: Postgres aborts one, with nothing written, and the other writes', async () => {
  const ready = { a: gate(), b: gate() }
  const before = await count('nested')
  const nested = (own: 'a' | 'b', other: 'a' | 'b') => {
    const common = { site: 'nested', seen: [], reread: async () => [] }
    const inner = async (tx: pg.ClientBase) => {
      await openIncident(1, 'nested')(tx)
      ready[own].open()
      await ready[other].opened
      return guard.run({ ...common, lock: `nested:${other}`, write: openIncident(1, 'nested'), tx })
    }
    return guard.run({ ...common, lock: `nested:${own}`, write: inner })
  }
  const ended = await Promise.allSettled([nested('a', 'b'), nested('b', 'a')])
  const [victim, ...others] = ended.filter((end) => end.status === 'rejected')
  assert.ok(victim?.reason instanceof TransactionConflictError)
  assert.equal((victim.reason.cause as { code: string }).code, '40P01')
  assert.deepEqual([others, (await count('nested')) - before], [[], 2])
})

async function count(by: string): Promise<number> {
  return (await db.pool.query('select count(*)::int as n from incident where opened_by = $1', [by])).rows[0].n
}
