// The database carried out the statement, and its reply was lost.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type { QueryArrayConfig, QueryArrayResult } from 'pg'
import { Lane } from '../../src/db/lane.ts'
import { Effects } from '../../src/effects/once.ts'
import { NotDone } from '../../src/index.ts'
import { type FaultyProxy, startFaultyProxy } from '../../tools/faulty-proxy.ts'
import { again, claimed, failureOf, ledger, takenOver } from '../support/effects.ts'
import { codeOf, type Scene, scene } from '../support/worker.ts'

async function behindProxy(t: TestContext): Promise<Scene & { proxy: FaultyProxy; direct: Scene['lh'] }> {
  const setting = await scene(t)
  const { hostname: host, port } = new URL(setting.db.url)
  const proxy = await startFaultyProxy({ host, port: Number(port) })
  setting.undo.after(() => proxy.stop())
  const lh = setting.leasehold({ connectionString: proxy.url(setting.db.url) })
  return { ...setting, lh, proxy, direct: setting.lh }
}

for (const statement of ['effect.begin', 'effect.done']) {
  test(`the reply to ${statement} is lost, three times: the effect happens once, and the handler notices nothing`, async (t) => {
    const { lh, proxy } = await behindProxy(t)
    const job = await claimed(lh)
    const cut = proxy.cutReplies(statement, 3)
    let runs = 0
    assert.equal(await job.once('charge', () => `receipt ${++runs}`), 'receipt 1')
    await cut
    assert.deepEqual([runs, await ledger(lh, job)], [1, ['charge done by 1']])
    await job.complete()
  })
}

test('the reply to effect.take_over is lost: the effect is ours, and happens once more', async (t) => {
  const setting = await behindProxy(t)
  const first = await claimed(setting.lh)
  await failureOf(first.once('charge', () => Promise.reject(new Error('x'))))
  const second = await takenOver(setting)
  const cut = setting.proxy.cutReplies('effect.take_over')
  let runs = 0
  assert.equal(await second.once('charge', () => `receipt ${++runs}`, { ifUnknown: 'retry' }), 'receipt 1')
  await cut
  assert.deepEqual(await ledger(setting.lh, second), ['charge done by 2'])
})

test('the reply to effect.not_done is lost: the marker is gone, and the effect may be run again', async (t) => {
  const { lh, proxy } = await behindProxy(t)
  const job = await claimed(lh)
  const cut = proxy.cutReplies('effect.not_done')
  const cause = new Error('declined')
  const declined = () => Promise.reject(new NotDone('x', { cause }))
  assert.equal(await failureOf(job.once('charge', declined)), cause)
  await cut
  assert.equal(await job.once('charge', () => 'at last'), 'at last')
})

for (const [statement, first] of [
  ['effect.not_done', () => Promise.reject(new NotDone())],
  ['effect.done', () => 'first'],
] as const) {
  test(`${statement} of an earlier run that arrives late, in the same attempt, changes nothing`, async (t) => {
    const { lh, db } = await scene(t)
    const job = await claimed(lh)
    const late: (() => Promise<unknown>)[] = []
    const query = async (config: QueryArrayConfig): Promise<QueryArrayResult> => {
      const send = () => db.pool.query(config)
      if (late.length > 0 || !config.text.startsWith(`-- ${statement}`)) return send()
      late.push(send)
      throw Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' })
    }
    const effects = new Effects(new Lane({ query }), {
      jobId: job.id,
      claimId: job.claimId,
      generation: job.generation,
    })
    await effects.once('charge', first, { ifUnknown: 'retry' }).catch(() => {})
    await db.pool.query('delete from leasehold.effect') // As a person would: it did not happen.
    const second = async () => {
      await late[0]!()
      return ledger(lh, job)
    }
    assert.deepEqual(await effects.once('charge', second), ['charge started by 1'])
    assert.deepEqual(await ledger(lh, job), ['charge done by 1'])
  })
}

for (const [ifUnknown, code] of [
  ['stop', 'EFFECT_UNKNOWN'],
  ['retry', 'declined'],
] as const) {
  test(`no reply to effect.not_done for good, with ${ifUnknown}: the handler sees ${code}`, async (t) => {
    const { lh, proxy } = await behindProxy(t)
    const job = await claimed(lh)
    const declined = () => {
      proxy.refuse()
      proxy.cut()
      throw new NotDone('x', { cause: Object.assign(new Error(), { code: 'declined' }) })
    }
    assert.equal(await codeOf(() => job.once('charge', declined, { ifUnknown })), code)
    proxy.accept()
    assert.equal(await job.once('charge', () => 'at last'), 'at last', 'this process knows that it did not happen')
  })
}

test('no reply to effect.begin for good: nothing was run', async (t) => {
  const { lh, proxy, direct } = await behindProxy(t)
  const job = await claimed(lh)
  proxy.refuse()
  proxy.cut()
  await failureOf(job.once('charge', () => assert.fail('the marker is not committed')))
  proxy.accept()
  assert.deepEqual(await ledger(direct, job), [])
  assert.equal(await job.once('charge', () => 1), 1)
})

test('no reply to effect.begin, but it was carried out: the same attempt may begin again', async (t) => {
  const { lh, proxy } = await behindProxy(t)
  const job = await claimed(lh)
  const cut = proxy.cutReplies('effect.begin', 5)
  await failureOf(job.once('charge', () => assert.fail('the marker may not be there')))
  await cut
  assert.deepEqual(await ledger(lh, job), ['charge started by 1'])
  assert.equal(await job.once('charge', () => 'at last'), 'at last')
  assert.deepEqual(await ledger(lh, job), ['charge done by 1'])
})

test('no reply to effect.done for good: the effect is unknown, and is not run again', async (t) => {
  const { lh, proxy, direct } = await behindProxy(t)
  const job = await claimed(lh)
  const charge = () => {
    proxy.refuse()
    proxy.cut()
  }
  assert.equal(await codeOf(() => job.once('charge', charge)), 'EFFECT_UNKNOWN')
  proxy.accept()
  assert.deepEqual(await ledger(direct, job), ['charge started by 1'])
  await job.release()
  assert.equal(await codeOf(async () => (await again(direct)).once('charge', charge)), 'EFFECT_UNKNOWN')
})
