// A guard that is turned on step by step.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { WriteGuard } from '../../../src/tables/index.ts'
import { isGuarded } from '../../../src/tables/rollout.ts'
import { suiteDatabase } from '../../support/database.ts'
import { advisoryLocks, createIncidents, openIncidents, opening } from '../../support/incidents.ts'

const db = await suiteDatabase()
await createIncidents(db)
const KEYS = Array.from({ length: 2_000 }, (_, n) => `entity:${n}`)
const guardedAt = (percent: number, site = 'here') => KEYS.filter((key) => isGuarded(site, [key], percent))

test('raising the percentage only adds keys; 0 has none, 100 has all, and between them it is about that many', () => {
  let before = new Set<string>()
  for (const percent of [0, 0.1, 1, 5, 25, 50, 75, 99, 99.9, 100]) {
    const now = new Set(guardedAt(percent))
    for (const key of before) assert.ok(now.has(key), `${key} was dropped at ${percent} %`)
    // The keys are fixed, so this is deterministic: it shows that the hash spreads them.
    assert.ok(Math.abs(now.size / KEYS.length - percent / 100) < 0.03, `${now.size} at ${percent} %`)
    before = now
  }
  assert.deepEqual([guardedAt(0).length, guardedAt(100).length], [0, KEYS.length])
  assert.notDeepEqual(guardedAt(50, 'here'), guardedAt(50, 'there'))
})

test('outside the rollout the write runs in the same kind of transaction, without lock and re-read', async () => {
  const guard = new WriteGuard(db.pool)
  const { write, ...rest } = opening(1)
  const isolation = await guard.run({
    ...rest,
    seen: ['not what is there'],
    rollout: 0,
    reread: async () => assert.fail('it was read again'),
    write: async (tx) => {
      await write(tx)
      assert.equal(await advisoryLocks(db), 0)
      return (await tx.query('show transaction_isolation')).rows[0].transaction_isolation
    },
  })
  assert.equal(isolation, 'read committed')
  const tx = await db.connect()
  await tx.query('begin')
  await guard.run({ ...opening(1), seen: [], rollout: 0, tx })
  await tx.query('rollback')
  assert.equal((await openIncidents(1)(db.pool)).length, 1)
  assert.deepEqual(guard.counts()['open incident'], { written: 0, conflicts: 0, lockTimeouts: 0, unguarded: 2 })
})

test('a function is called for each write, so it can be turned up and down at run time', async () => {
  const guard = new WriteGuard(db.pool)
  let percent = 0
  const attempt = () => guard.run({ ...opening(2), seen: [], rollout: () => percent })
  await attempt()
  percent = 100
  await assert.rejects(attempt, { code: 'CONCURRENT_MODIFICATION' })
  percent = 0
  await attempt()
  assert.deepEqual(guard.counts()['open incident'], { written: 0, conflicts: 1, lockTimeouts: 0, unguarded: 2 })
})

test('several locks decide as one sorted list, so racers decide alike', async () => {
  const guard = new WriteGuard(db.pool)
  for (let n = 0; n < 20; n++) {
    const site = `site ${n}`
    const run = (lock: string[]) =>
      guard.run({ site, lock, seen: [], rollout: 50, reread: async () => [], write: async () => {} })
    await run(['a', 'b', 'c'])
    await run(['c', 'a', 'b', 'a'])
    const { written, unguarded } = guard.counts()[site]!
    assert.deepEqual([written, unguarded].sort(), [0, 2], site)
  }
  const all = Object.values(guard.counts())
  assert.ok(all.some(({ written }) => written > 0) && all.some(({ unguarded }) => unguarded > 0))
})

test('an invalid percentage is refused before anything is sent', async () => {
  const guard = new WriteGuard(db.pool)
  const bad: unknown[] = [-1, 101, Number.NaN, '50', null, () => undefined, () => 1_000]
  for (const rollout of bad) {
    const attempt = guard.run({ ...opening(3), seen: [], rollout: rollout as number })
    await assert.rejects(attempt, { code: 'INVALID_OPTION', option: 'rollout' })
  }
  assert.deepEqual(await openIncidents(3)(db.pool), [])
})
