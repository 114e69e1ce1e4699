// Renews at a third, gives up a margin before the end: by a clock that the test moves.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { type KeptLease, LeaseKeeper } from '../../src/runtime/lease-keeper.ts'
import { movableTimers } from '../support/movable-clock.ts'

const LEASE_MS = 30_000

interface Held extends KeptLease {
  readonly name: string
}

function keeping(t: TestContext, renew: (due: readonly Held[]) => Promise<void>) {
  const clock = movableTimers(t, { runByThemselves: false, stands: true })
  const expired: string[] = []
  const problems: unknown[] = []
  const keeper: LeaseKeeper<Held> = new LeaseKeeper<Held>(LEASE_MS, {
    renew,
    expired: ({ name }) => expired.push(name),
    problem: (error) => problems.push(error),
  })
  keeper.start()
  t.after(() => void keeper.stop()) // It waits for a renewal that hangs.
  const keep = (name: string): Held => {
    const held = { name, grantedUntil: 0, deadline: 0 }
    keeper.granted(held, performance.now() + LEASE_MS)
    keeper.keep(held)
    return held
  }
  const pass = async (ms: number) => {
    clock.pass(ms)
    for (let turn = 0; turn < 5; turn++) await setImmediate()
  }
  return { keeper, keep, pass, expired, problems }
}

test('a lease is renewed when a third of it has passed, and not before', async (t) => {
  const renewed: string[] = []
  const { keeper, keep, pass, expired } = keeping(t, async (due) => {
    for (const held of due) {
      renewed.push(held.name)
      keeper.granted(held, performance.now() + LEASE_MS)
    }
  })
  const first = keep('first')
  await pass(LEASE_MS / 3 - 10)
  assert.deepEqual(renewed, [])
  await pass(11)
  assert.deepEqual(renewed, ['first'])
  assert.equal(first.grantedUntil, performance.now() + LEASE_MS)
  for (let third = 0; third < 9; third++) await pass(LEASE_MS / 6)
  assert.deepEqual([new Set(renewed).size, expired.length], [1, 0])
  assert.ok(renewed.length >= 4 && renewed.length <= 6, String(renewed.length))
})

test('a lease whose renewal hangs is given up before it can be over', async (t) => {
  const { keep, pass, expired } = keeping(t, () => new Promise(() => {}))
  const held = keep('hanging')
  await pass(LEASE_MS / 3)
  await pass(held.deadline - performance.now() - 1)
  assert.deepEqual(expired, [])
  await pass(1)
  assert.deepEqual(expired, ['hanging'])
  assert.ok(performance.now() < held.grantedUntil)
})

test('a renewal that fails is retried, and reported each time', async (t) => {
  let calls = 0
  const { keeper, keep, pass, expired, problems } = keeping(t, async (due) => {
    if (++calls < 3) throw new Error('away')
    for (const held of due) keeper.granted(held, performance.now() + LEASE_MS)
  })
  keep('persistent')
  for (let turn = 0; turn < 6; turn++) await pass(LEASE_MS / 12)
  for (let turn = 0; turn < 6; turn++) await pass(LEASE_MS / 12)
  assert.equal(problems.length, 2)
  assert.deepEqual(expired, [])
})

test('what is released is neither renewed nor given up, also by one that is given up before it', async (t) => {
  const renewed: string[] = []
  const { keeper, keep, pass, expired } = keeping(t, async (due) => {
    renewed.push(...due.map(({ name }) => name))
  })
  const done = keep('done')
  assert.equal(keeper.release(done), true)
  assert.equal(keeper.release(done), false)
  await pass(2 * LEASE_MS)
  assert.deepEqual([renewed, expired, keeper.isKept(done)], [[], [], false])
})
