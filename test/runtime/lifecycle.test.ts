// Run, stop, grace, signals: the order of the steps, and what cuts them short.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Lifecycle, type LifecycleParts } from '../../src/runtime/lifecycle.ts'

function recording(parts: Partial<LifecycleParts> = {}) {
  const steps: string[] = []
  const step = (name: string) => async () => void steps.push(name)
  const lifecycle = new Lifecycle({
    signals: [],
    graceMs: 5_000,
    start: step('start'),
    close: async (ms) => void steps.push(`close ${ms}`),
    untilIdle: async (ms, hurry) => void steps.push(`idle ${hurry.aborted ? 'now' : ms}`),
    abortHandlers: () => void steps.push('abort'),
    finish: async (closed) => {
      await closed
      steps.push('finish')
    },
    end: step('end'),
    ...parts,
  })
  return { lifecycle, steps }
}

test('a run starts, drains in four steps and ends, once', async () => {
  const { lifecycle, steps } = recording()
  const running = lifecycle.run()
  assert.equal(lifecycle.run(), running)
  await Promise.all([lifecycle.stop(), lifecycle.stop({ grace: '1m' })])
  await running
  assert.deepEqual(steps, ['start', 'close 5000', 'idle 5000', 'abort', 'idle 1000', 'finish', 'end'])
})

test('a grace of 0 waits for no handler, also while another stop waits', async () => {
  let idle = () => {}
  const { lifecycle, steps } = recording({
    untilIdle: (_, hurry) =>
      new Promise((resolve) => {
        idle = resolve
        if (hurry.aborted) resolve()
        hurry.addEventListener('abort', () => resolve())
      }),
  })
  const running = lifecycle.run()
  const patient = lifecycle.stop()
  await lifecycle.stop({ grace: 0 })
  await Promise.all([patient, running])
  assert.deepEqual(steps, ['start', 'close 5000', 'abort', 'finish', 'end'])
  idle()
})

test('stopped before it ran, it does not start; and one that cannot start ends and rejects', async () => {
  const early = recording()
  await early.lifecycle.stop()
  await early.lifecycle.run()
  assert.equal(early.steps.includes('start'), false)

  const broken = recording({ start: () => Promise.reject(new Error('no such queue')) })
  await assert.rejects(broken.lifecycle.run(), /no such queue/)
  assert.deepEqual(broken.steps, ['end'])
})

test('the first signal drains, the second hurries, and afterwards no listener is left', async () => {
  const before = process.listenerCount('SIGWINCH')
  let hurried = false
  const { lifecycle } = recording({
    signals: ['SIGWINCH'],
    untilIdle: (_, hurry) =>
      new Promise((resolve) => {
        if (hurry.aborted) return resolve()
        hurry.addEventListener('abort', () => {
          hurried = true
          resolve()
        })
      }),
  })
  const running = lifecycle.run()
  process.emit('SIGWINCH')
  assert.equal(lifecycle.isStopping, true)
  process.emit('SIGWINCH')
  await running
  assert.deepEqual([hurried, process.listenerCount('SIGWINCH')], [true, before])
})
