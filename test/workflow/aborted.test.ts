// Steps whose signal is aborted, since the run fails, ends, or is out of time.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { test } from 'node:test'
import type { JobId, Leasehold } from '../../src/index.ts'
import { getRun, handleRuns, type Step, signal, start, workflow } from '../../src/workflow/index.ts'
import { gate } from '../support/gate.ts'
import { manyTurns } from '../support/held-runs.ts'
import { movableClock, movableTimers } from '../support/movable-clock.ts'
import { until } from '../support/until.ts'
import { inTime, next, scene } from '../support/worker.ts'

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

const LATE = { ...FAST, deadline: '20s' } as const
/** So that it is not lost when the clock of the process is moved. */
const HELD = { lease: '30m' } as const

/** Not by waitFor(), whose clock is moved, too. */
const ended = (lh: Leasehold, jobId: JobId) =>
  until('it has ended', async () => {
    const job = (await lh.get(jobId))!
    return ['pending', 'processing'].includes(job.status) ? undefined : job
  })

test('a run starts no step once its deadline has passed, also without a wait in between', async (t) => {
  const { lh, worker } = await scene(t)
  const clock = movableClock(t)
  const did: string[] = []
  const flow = workflow<null, string>('flow', LATE, async (run) => {
    for (const seconds of [8, 14, 1]) {
      const work = () => {
        clock.pass(seconds * 1_000)
        did.push(`${seconds}`)
      }
      await run.step(['took', seconds], { compensate: () => void did.push(`-${seconds}`) }, work)
    }
    return 'done'
  })
  const { jobId } = await start(lh, flow, null)
  worker([handleRuns(flow)], HELD)
  const job = await ended(lh, jobId)
  assert.deepEqual([job.status, job.lastError?.message], ['dead_letter', 'its deadline has passed'])
  assert.deepEqual(did, ['8', '14', '-14', '-8'])
})

for (const beside of ['alone', 'beside a wait'] as const) {
  test(`a step that runs ${beside} is aborted when the deadline passes, and the run is undone`, async (t) => {
    const { lh, worker } = await scene(t)
    const clock = movableTimers(t)
    const did: string[] = []
    const began = gate()
    let reason: unknown
    const flow = workflow<null, void>('flow', LATE, async (run) => {
      await run.step('a', { compensate: () => void did.push('-a') }, () => void did.push('a'))
      const long = run.step('long', async ({ signal }) => {
        began.open()
        await once(signal, 'abort')
        reason = signal.reason
        throw signal.reason
      })
      await (beside === 'alone' ? long : Promise.all([long, run.signal('never')]))
    })
    const { jobId } = await start(lh, flow, null, { runId: 'r' })
    worker([handleRuns(flow)], HELD)
    await began.opened
    await manyTurns()
    clock.pass(20_000)
    const job = await ended(lh, jobId)
    assert.deepEqual([job.status, job.lastError?.message], ['dead_letter', 'its deadline has passed'])
    assert.deepEqual([did, (reason as { code: string }).code], [['a', '-a'], 'TIMED_OUT'])
    const { steps } = (await getRun(lh, flow, 'r'))!
    assert.deepEqual(
      steps.map(({ type, name, state }) => `${type} ${name} ${state}`),
      ['step a recorded', 'compensation a recorded'],
    )
  })
}

test('a compensation is not aborted by the deadline, nor by a cancellation', async (t) => {
  const { lh, worker } = await scene(t)
  const clock = movableTimers(t)
  const [began, goes] = [gate(), gate()]
  let isAborted = false
  const compensate = async (_: unknown, { signal }: Step) => {
    began.open()
    await goes.opened
    isAborted = signal.aborted
  }
  const flow = workflow<null, void>('flow', LATE, async (run) => {
    await run.step('a', { compensate }, () => {})
    await run.compensate('no')
  })
  const { jobId } = await start(lh, flow, null)
  const busy = worker([handleRuns(flow)], HELD)
  await began.opened
  clock.pass(20_000)
  const aborted = next(busy, 'aborted')
  await lh.cancel(jobId)
  await aborted
  goes.open()
  const job = await ended(lh, jobId)
  assert.deepEqual([job.status, job.reason, isAborted], ['cancelled', 'no', false])
})

test('the timeout bounds one slice: its step is aborted, and the next slice goes on behind the last record', async (t) => {
  const { lh, worker } = await scene(t)
  const clock = movableTimers(t)
  const did: string[] = []
  let began = gate()
  const flow = workflow<null, string>('flow', { ...FAST, timeout: '15s', retry: { attempts: 1 } }, async (run) => {
    await run.step('a', () => void did.push('a'))
    await run.step('slow', async ({ signal }) => {
      did.push('slow')
      began.open()
      if (did.length > 2) return
      await once(signal, 'abort')
      did.push(signal.reason.code)
      throw signal.reason
    })
    await run.signal('go')
    await run.step('b', async () => {
      began.open()
      await goes.opened
    })
    return 'done'
  })
  const goes = gate()
  const { jobId } = await start(lh, flow, null, { runId: 'r' })
  worker([handleRuns(flow)], HELD)
  await began.opened
  clock.pass(15_000)
  await until('it waits', async () => (await lh.get(jobId))!.label === 'waiting')
  assert.deepEqual(did, ['a', 'slow', 'TIMED_OUT', 'slow'])
  // A later slice has the whole time again.
  began = gate()
  clock.pass(14_000)
  await signal(lh, flow, 'r', 'go')
  await began.opened
  clock.pass(5_000)
  goes.open()
  assert.equal((await ended(lh, jobId)).result, 'done')
})
