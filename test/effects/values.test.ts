// The result of an effect is what JSON keeps of it, the first time and every time after.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { claimed, failureOf } from '../support/effects.ts'
import { MB, revoked, UNSTORABLE } from '../support/poison.ts'
import { codeOf, scene } from '../support/worker.ts'

test('undefined, null and everything JSON holds come back as they were', async (t) => {
  const { lh } = await scene(t)
  const job = await claimed(lh)
  const values = {
    undefined: undefined,
    null: null,
    false: false,
    zero: 0,
    text: '',
    list: [1, [2]],
    object: { a: { b: 'ü📬' } },
  }
  for (const [name, value] of Object.entries(values)) {
    assert.deepEqual(await job.once<unknown>(name, () => value), value, name)
    assert.deepEqual(await job.once(name, () => assert.fail('it is done')), value, name)
  }
  const effects = await lh.effects(job.id)
  assert.deepEqual(Object.fromEntries(effects.map(({ name, result }) => [name, result])), values)
  assert.ok(effects.every(({ state }) => state === 'done'))
})

test('a result of ten megabytes is kept whole', async (t) => {
  const { lh } = await scene(t)
  const job = await claimed(lh)
  const large = { pages: ['x'.repeat(5 * MB), 'y'.repeat(5 * MB)] }
  assert.deepEqual(await job.once('scan', () => large), large)
  assert.deepEqual(await job.once('scan', () => assert.fail('it is done')), large)
})

test('a result that cannot be stored is repaired, and the repeat sees the same as the first run', async (t) => {
  const { lh } = await scene(t)
  const job = await claimed(lh)
  for (const [name, make] of Object.entries(UNSTORABLE)) {
    const first = await job.once<unknown>(name, make)
    assert.deepEqual(await job.once<unknown>(name, () => assert.fail('it is done')), first, name)
  }
  const date = new Date(0)
  assert.equal(await job.once<unknown>('date', () => date), '1970-01-01T00:00:00.000Z')
})

test('any thrown value makes the effect unknown and is kept as its cause', async (t) => {
  const { lh } = await scene(t)
  const job = await claimed(lh)
  const thrown = [undefined, null, 'text', 0, revoked(), Object.create(null)]
  for (const [index, value] of thrown.entries()) {
    const error = await failureOf(job.once(`effect ${index}`, () => Promise.reject(value)))
    assert.equal(error.code, 'EFFECT_UNKNOWN')
    assert.equal(error.cause, value)
    assert.equal(await codeOf(() => job.once(`effect ${index}`, () => 1)), 'EFFECT_UNKNOWN')
  }
})
