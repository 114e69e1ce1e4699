// An operator finds out whether an effect happened, records it, and the job goes on.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Lane } from '../../src/db/lane.ts'
import type { EffectFinding } from '../../src/effects/ledger.ts'
import { settleEffect } from '../../src/effects/ledger.ts'
import type { ManualJob } from '../../src/index.ts'
import { claim, newClaimId } from '../../src/jobs/claim.ts'
import { everyStart } from '../../src/jobs/scan-walk.ts'
import { waitUntilBlocked } from '../support/database.ts'
import { again, claimed, failureOf, ledger, returned } from '../support/effects.ts'
import { gate } from '../support/gate.ts'
import { newWorker, session } from '../support/queue.ts'
import { codeOf, type Scene, scene } from '../support/worker.ts'

/** A dead letter, because it is unknown whether it was charged. */
async function unknownCharge({ lh }: Scene): Promise<ManualJob<number>> {
  const job = await claimed(lh)
  const error = await failureOf(job.once('charge', () => Promise.reject(new Error('socket hang up'))))
  await job.bury(error)
  const { status, reason, lastError } = (await lh.get(job.id))!
  assert.deepEqual([status, reason, lastError?.code], ['dead_letter', 'effect_unknown', 'EFFECT_UNKNOWN'])
  assert.equal(lastError?.cause?.message, 'socket hang up')
  return job
}

test('settled as happened, the redriven job goes on with the given result', async (t) => {
  const setting = await scene(t)
  const { lh } = setting
  const dead = await unknownCharge(setting)
  assert.equal(await lh.settleEffect(dead.id, 'charge', { happened: true, result: { receipt: 7 } }), 'settled')
  assert.deepEqual(await lh.redrive({ kind: { name: 'task', queue: 'task' } as never, reason: 'effect_unknown' }), [
    dead.id,
  ])
  const job = await again(lh)
  assert.deepEqual(await job.once('charge', () => assert.fail('it happened')), { receipt: 7 })
  assert.deepEqual(await ledger(lh, job), ['charge done by 1'])
})

test('settled as not happened, the redriven job runs the effect again', async (t) => {
  const setting = await scene(t)
  const dead = await unknownCharge(setting)
  assert.equal(await setting.lh.settleEffect(dead.id, 'charge', { happened: false }), 'settled')
  await setting.lh.redrive(dead.id)
  const job = await again(setting.lh)
  assert.equal(await job.once('charge', () => 'at last'), 'at last')
  assert.deepEqual(await ledger(setting.lh, job), ['charge done by 2'])
})

test('redriven without settleEffect(), the effect is unknown again', async (t) => {
  const setting = await scene(t)
  const dead = await unknownCharge(setting)
  await setting.lh.redrive(dead.id)
  const job = await again(setting.lh)
  assert.equal(await codeOf(() => job.once('charge', () => 1)), 'EFFECT_UNKNOWN')
})

test('an effect that is done or was never begun is not settled; the first report counts', async (t) => {
  const setting = await scene(t)
  const { lh } = setting
  const dead = await unknownCharge(setting)
  assert.equal(await lh.settleEffect(dead.id, 'refund', { happened: true }), 'nothing_to_settle')
  assert.equal(await lh.settleEffect('999', 'charge', { happened: true }), 'nothing_to_settle')
  assert.equal(await lh.settleEffect(dead.id, 'charge', { happened: true, result: 1 }), 'settled')
  assert.equal(await lh.settleEffect(dead.id, 'charge', { happened: true, result: 2 }), 'nothing_to_settle')
  assert.equal(await lh.settleEffect(dead.id, 'charge', { happened: false }), 'nothing_to_settle')
  const [effect] = await lh.effects(dead.id)
  assert.deepEqual([effect?.state, effect?.result], ['done', 1])
  assert.ok(effect!.startedAt <= effect!.finishedAt!)
})

test('while a worker holds the job, settleEffect() is refused', async (t) => {
  const { lh } = await scene(t)
  const job = await claimed(lh)
  await failureOf(job.once('charge', () => Promise.reject(new Error('x'))))
  for (const finding of [{ happened: true }, { happened: false }] as const) {
    assert.equal(await lh.settleEffect(job.id, 'charge', finding), 'processing')
  }
  assert.deepEqual(await ledger(lh, job), ['charge started by 1'])
  await job.release()
  assert.equal(await lh.settleEffect(job.id, 'charge', { happened: true }), 'settled')
})

test('settleEffect() waits for a claim in flight, and finds the job processing', async (t) => {
  const setting = await scene(t)
  const { lh, db } = setting
  const job = await claimed(lh)
  await failureOf(job.once('charge', () => Promise.reject(new Error('x'))))
  await job.release()
  const claimer = await session(db)
  await claimer.client.query('begin')
  const request = { claimId: newClaimId(), worker: newWorker(), kinds: ['task'], limit: 1, leaseMs: 30_000 }
  assert.equal((await claim(claimer.lane, request, everyStart(['task']))).length, 1)
  const operator = await session(db)
  const settled = settleEffect(new Lane(operator.client), job.id, 'charge', { happened: false })
  await waitUntilBlocked(await db.connect(), operator.pid)
  await claimer.client.query('commit')
  assert.equal(await settled, 'processing')
  assert.deepEqual(await ledger(lh, job), ['charge started by 1'])
})

test('a worker that was slow cannot change what was settled meanwhile', async (t) => {
  const { lh, db } = await scene(t)
  const slow = await claimed(lh)
  const [begun, goOn] = [gate(), gate()]
  const late = slow.once('charge', async () => {
    begun.open()
    await goOn.opened
    return 'as the worker says'
  })
  await begun.opened
  await returned(db)
  assert.equal(await lh.settleEffect(slow.id, 'charge', { happened: true, result: 'as the bank says' }), 'settled')
  goOn.open()
  assert.equal((await failureOf(late)).code, 'LEASE_LOST')
  const job = await again(lh)
  assert.equal(await job.once('charge', () => assert.fail('it happened')), 'as the bank says')
})

test('invalid arguments are refused', async (t) => {
  const { lh } = await scene(t)
  const settle = lh.settleEffect.bind(lh) as (...args: unknown[]) => Promise<unknown>
  const findings: unknown[] = [{}, { happened: 'yes' }, undefined, null, { happened: true, results: 1 }]
  for (const finding of findings) assert.equal(await codeOf(() => settle('1', 'charge', finding)), 'INVALID_OPTION')
  assert.equal(await codeOf(() => settle('x', 'charge', { happened: true } satisfies EffectFinding)), 'INVALID_OPTION')
  assert.equal(await codeOf(() => settle('1', 'a\0', { happened: true } satisfies EffectFinding)), 'INVALID_OPTION')
  assert.equal(await codeOf(() => lh.effects('1; drop')), 'INVALID_OPTION')
})
