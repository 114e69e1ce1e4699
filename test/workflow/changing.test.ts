// What docs/changing-workflows.md promises of code that is changed while runs of it are open.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { Fatal } from '../../src/index.ts'
import { testClock } from '../../src/testing/index.ts'
import { type Code, handleRuns, retryFrom, start, workflow } from '../../src/workflow/index.ts'
import { scene } from '../support/worker.ts'

const OPTIONS = { maxAttempts: 1, retry: { attempts: 1 } } as const

/** A run that has done a and b with the first code, and sleeps; then it goes on with the second. */
async function changed(t: TestContext, after: (done: string[]) => Code<null, unknown>) {
  const { lh } = await scene(t)
  const clock = await testClock(lh)
  const done: string[] = []
  const before = workflow<null, unknown>('flow', OPTIONS, async (run) => {
    await run.step('a', () => 1)
    await run.step('b', () => 2)
    await run.any({ go: run.signal('go'), late: run.sleep('1h') })
    await run.sleep('1h')
  })
  const run = await start(lh, before, null, { runId: 'r' })
  await lh.drain([handleRuns(before)])
  await clock.advance('1h')
  await lh.drain([handleRuns(before)])
  const now = workflow('flow', OPTIONS, after(done))
  const job = await clock.runToEnd([handleRuns(now)], run)
  return { lh, clock, run, before, job, done, error: JSON.stringify(job.lastError) }
}

test('a step that is added behind everything on record runs in open runs, too', async (t) => {
  const { job, done } = await changed(t, (done) => async (run) => {
    await run.step('a', () => done.push('a'))
    await run.step('b', () => done.push('b'))
    await run.any({ go: run.signal('go'), late: run.sleep('1h') })
    await run.sleep('1h')
    await run.step('c', () => done.push('c'))
  })
  assert.deepEqual([job.status, done], ['completed', ['c']])
})

const refused: Record<string, { unreached: string; code: (done: string[]) => Code<null, unknown> }> = {
  'a step that is added in front of one on record': {
    unreached: 'b',
    code: (done) => async (run) => {
      await run.step('a', () => 1)
      await run.step('new', () => done.push('new'))
      await run.step('b', () => 2)
      await run.any({ go: run.signal('go'), late: run.sleep('1h') })
      await run.sleep('1h')
    },
  },
  'a step that is removed': {
    unreached: 'b',
    code: (done) => async (run) => {
      await run.step('a', () => 1)
      await run.any({ go: run.signal('go'), late: run.sleep('1h') })
      await run.sleep('1h')
      await run.step('c', () => done.push('c'))
    },
  },
  'a step that is renamed': {
    unreached: 'b',
    code: (done) => async (run) => {
      await run.step('a', () => 1)
      await run.step('b2', () => done.push('b2'))
    },
  },
  'two steps that change places': {
    unreached: 'a',
    code: (done) => async (run) => {
      await run.step('b', () => done.push('b'))
      await run.step('a', () => done.push('a'))
    },
  },
  'a choice that is added to any()': {
    unreached: 'go|late',
    code: (done) => async (run) => {
      await run.step('a', () => 1)
      await run.step('b', () => 2)
      await run.any({ go: run.signal('go'), stop: run.signal('stop'), late: run.sleep('1h') })
      await run.step('c', () => done.push('c'))
    },
  },
  'another sleep, with a step on record behind it': {
    unreached: 'b',
    code: (done) => async (run) => {
      await run.step('a', () => 1)
      await run.sleep('5m')
      await run.step('c', () => done.push('c'))
      await run.step('b', () => 2)
    },
  },
  'one more occurrence of a step, with a wait on record behind it': {
    unreached: 'go|late',
    code: (done) => async (run) => {
      await run.step('a', () => 1)
      await run.step('b', () => 2)
      await run.step('b', () => done.push('b'))
      await run.any({ go: run.signal('go'), late: run.sleep('1h') })
    },
  },
  'another sleep with a name, in front of the last wait on record': {
    unreached: 'sleep',
    code: (done) => async (run) => {
      await run.step('a', () => 1)
      await run.step('b', () => 2)
      await run.any({ go: run.signal('go'), late: run.sleep('1h') })
      await run.sleep('5m', { name: 'grace' })
      await run.step('c', () => done.push('c'))
      await run.sleep('1h')
    },
  },
}

for (const [change, { unreached, code }] of Object.entries(refused)) {
  test(`${change} is refused before anything is done, and the run goes on with the old code`, async (t) => {
    const { lh, clock, run, before, job, done, error } = await changed(t, code)
    assert.deepEqual([job.status, done], ['dead_letter', []])
    assert.ok(error.includes(`\\"${unreached}\\"`), error)
    assert.deepEqual(await lh.redrive(run.jobId), [run.jobId])
    assert.equal((await clock.runToEnd([handleRuns(before)], run)).status, 'completed')
  })
}

test('not found out: a sleep without a name takes the record of the last one, if nothing is on record behind that', async (t) => {
  const { job, done } = await changed(t, (done) => async (run) => {
    await run.step('a', () => 1)
    await run.step('b', () => 2)
    await run.any({ go: run.signal('go'), late: run.sleep('1h') })
    await run.sleep('5m')
    await run.step('c', () => done.push('c'))
    await run.sleep('1h')
  })
  assert.deepEqual([job.status, done], ['completed', ['c']])
})

test('a run that was undone goes on from its first step, and does everything again', async (t) => {
  const { lh } = await scene(t)
  const clock = await testClock(lh)
  const done: string[] = []
  const flow = (isFixed: boolean) =>
    workflow<null, string>('flow', OPTIONS, async (run) => {
      await run.step('reserve', { compensate: () => void done.push('release') }, () => void done.push('reserve'))
      await run.step('charge', () => {
        if (!isFixed) throw new Fatal('a wrong account')
        done.push('charge')
      })
      return 'done'
    })
  const run = await start(lh, flow(false), null, { runId: 'r' })
  assert.equal((await clock.runToEnd([handleRuns(flow(false))], run)).status, 'dead_letter')
  assert.deepEqual(done, ['reserve', 'release'])
  assert.equal(await retryFrom(lh, flow(true), 'r', { step: 'nothing' }), 'no_such_step')
  assert.equal(await retryFrom(lh, flow(true), 'r', { step: 'reserve' }), 'retried')
  assert.equal((await clock.runToEnd([handleRuns(flow(true))], run)).result, 'done')
  assert.deepEqual(done, ['reserve', 'release', 'reserve', 'charge'])
})

test('a worker leaves runs of a version alone that it does not know', async (t) => {
  const { lh } = await scene(t)
  const clock = await testClock(lh)
  const version = (of: number) => workflow<null, number>('flow', { version: of }, async (run) => run.version)
  const [one, two] = [await start(lh, version(1), null), await start(lh, version(2), null)]
  assert.equal((await clock.runToEnd([handleRuns(version(2))], two)).result, 2)
  assert.equal((await lh.get(one.jobId))!.label, 'ready')
  const both = [handleRuns(version(1)), handleRuns(version(2))]
  assert.equal((await clock.runToEnd(both, one)).result, 1)
})
