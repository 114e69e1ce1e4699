// Steps whose signal is aborted, since the run fails, ends, or is out of time.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { test } from 'node:test'
import { getRun, handleRuns, type Step, start, workflow } from '../../src/workflow/index.ts'
import { gate } from '../support/gate.ts'
import { manyTurns } from '../support/held-runs.ts'
import { inTime, scene } from '../support/worker.ts'

const FAST = { retry: { backoff: { first: 1, max: 1 } }, backoff: { first: 1, max: 1 } } as const

for (const ends of ['throws', 'returns'] as const) {
  test(`a step that runs when the code of another branch throws is aborted and ${ends} before the run goes on`, async (t) => {
    const { lh, worker } = await scene(t)
    let [running, most, times, aborted, isBroken] = [0, 0, 0, 0, true]
    const long = async ({ signal }: Step) => {
      most = Math.max(most, ++running)
      if (++times === 1) {
        await once(signal, 'abort')
        aborted++
        await manyTurns()
      }
      running--
      if (aborted === 1 && times === 1 && ends === 'throws') throw signal.reason
    }
    const flow = workflow<null, string>('flow', FAST, async (run) => {
      const breaks = async () => {
        await run.step('x', () => 1)
        if (!isBroken) return
        isBroken = false
        throw new Error('a bug')
      }
      await Promise.all([run.step('long', long), breaks()])
      return 'done'
    })
    const { jobId } = await start(lh, flow, null, { runId: 'r' })
    worker([handleRuns(flow)])
    assert.equal((await lh.waitFor(jobId)).result, 'done')
    assert.deepEqual({ most, aborted, times }, { most: 1, aborted: 1, times: ends === 'throws' ? 2 : 1 })
    const { steps } = (await getRun(lh, flow, 'r'))!
    const recorded = steps.map(({ name, state, attempt }) => `${name} ${state} ${attempt}`)
    assert.deepEqual(recorded, ['x recorded 1', 'long recorded 1'], 'the abort is no failure of the step')
  })
}

test('a step that nothing awaits is aborted when the run ends', async (t) => {
  const { lh } = await scene(t)
  const aborted = gate()
  const flow = workflow<null, string>('flow', FAST, async (run) => {
    const began = gate()
    void run.step('behind', async ({ signal }) => {
      signal.addEventListener('abort', aborted.open)
      began.open()
      await aborted.opened
    })
    await began.opened
    return 'done'
  })
  await start(lh, flow, null)
  await lh.drain([handleRuns(flow)])
  await inTime(aborted.opened, 'it was not aborted')
})
