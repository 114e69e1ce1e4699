// The table "When a step fails" of docs/workflows.md: how a run ends, and whether what it did is undone.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { z } from 'zod'
import { Cancel, Fatal, InvalidInputError, Snooze } from '../../src/index.ts'
import { testClock } from '../../src/testing/index.ts'
import { handleRuns, type Run, signal, start, workflow } from '../../src/workflow/index.ts'
import { scene } from '../support/worker.ts'

/** A run whose first step can be undone, and which then does this. */
async function ended(t: TestContext, does: (run: Run) => Promise<unknown>) {
  const { lh } = await scene(t)
  const clock = await testClock(lh)
  const undone: string[] = []
  const flow = workflow<null, unknown>('flow', { maxAttempts: 2, retry: { attempts: 2 } }, async (run) => {
    await run.step('a', { compensate: () => void undone.push('a') }, () => 'a')
    return does(run)
  })
  const run = await start(lh, flow, null, { runId: 'r' })
  const job = await clock.runToEnd([handleRuns(flow)], run)
  return { lh, clock, flow, run, job, undone }
}

const ends: Record<string, { does: (run: Run) => Promise<unknown>; status: string; undone: string[] }> = {
  'a step that fails for good': {
    does: (run) =>
      run.step('b', () => {
        throw new Error('no')
      }),
    status: 'dead_letter',
    undone: ['a'],
  },
  'code that throws Fatal': {
    does: async () => {
      throw new Fatal('no')
    },
    status: 'dead_letter',
    undone: ['a'],
  },
  'code that throws another error': {
    does: async () => {
      throw new Error('a bug')
    },
    status: 'dead_letter',
    undone: [],
  },
  'code that throws Cancel': {
    does: async () => {
      throw new Cancel('not wanted')
    },
    status: 'cancelled',
    undone: [],
  },
  'a step that throws Cancel': {
    does: (run) =>
      run.step('b', () => {
        throw new Cancel('not wanted')
      }),
    status: 'cancelled',
    undone: [],
  },
  'a compensation that throws Cancel': {
    does: async (run) => {
      const compensate = () => {
        throw new Cancel('not wanted')
      }
      await run.step('b', { compensate }, () => 1)
      throw new Fatal('no')
    },
    status: 'dead_letter',
    undone: ['a'],
  },
  'run.compensate()': { does: (run) => run.compensate('never shipped'), status: 'cancelled', undone: ['a'] },
  'run.commit(), and then Fatal': {
    does: async (run) => {
      run.commit()
      throw new Fatal('no')
    },
    status: 'dead_letter',
    undone: [],
  },
  'a result that is too large': {
    does: (run) => run.step('b', () => 'x'.repeat(5e6)),
    status: 'dead_letter',
    undone: ['a'],
  },
  'two steps of one name at a time': {
    does: (run) => Promise.all([run.step('b', () => 1), run.step('b', () => 2)]),
    status: 'dead_letter',
    undone: [],
  },
}

for (const [how, { does, status, undone }] of Object.entries(ends)) {
  test(`${how}: ${status}, ${undone.length === 0 ? 'and nothing is undone' : 'and undone'}`, async (t) => {
    const found = await ended(t, does)
    assert.deepEqual([found.job.status, found.undone], [status, undone], JSON.stringify(found.job.lastError))
  })
}

test('a bug is fixed and redriven, and the run goes on behind its last record', async (t) => {
  let isFixed = false
  const { lh, clock, flow, run, undone } = await ended(t, async (run) => {
    if (!isFixed) throw new Error('a bug')
    return run.step('b', () => 'done')
  })
  assert.equal(await signal(lh, flow, 'r', 'hello'), 'sent', 'a dead letter takes signals')
  isFixed = true
  await lh.redrive(run.jobId)
  assert.equal((await clock.runToEnd([handleRuns(flow)], run)).result, 'done')
  assert.deepEqual(undone, [])
})

test('a step behind run.commit() is undone, and one in front of it is not', async (t) => {
  const later: string[] = []
  const { job, undone } = await ended(t, async (run) => {
    run.commit()
    await run.step('b', { compensate: () => void later.push('b') }, () => 'b')
    throw new Fatal('no')
  })
  assert.deepEqual([job.status, undone, later], ['dead_letter', [], ['b']])
})

for (const why of ['its cancellation', 'its deadline'] as const) {
  test(`code that catches the error of ${why}, and returns, completes the run`, async (t) => {
    const { lh, db } = await scene(t)
    const flow = workflow<null, unknown>('flow', { deadline: '1d' }, async (run) => {
      await run.step('a', { compensate: () => assert.fail('it has completed') }, () => 'a')
      return Promise.resolve(run.signal('go')).catch(({ code }) => code)
    })
    const { jobId } = await start(lh, flow, null)
    await lh.drain([handleRuns(flow)])
    if (why === 'its deadline') await db.clock.advance('1 d')
    else await lh.cancel(jobId)
    await lh.drain([handleRuns(flow)])
    const code = why === 'its deadline' ? 'TIMED_OUT' : 'CANCEL_REQUESTED'
    assert.deepEqual([(await lh.get(jobId))!.status, (await lh.get(jobId))!.result], ['completed', code])
  })
}

test('a step that throws Snooze runs again after the delay, and has spent no attempt', async (t) => {
  const { lh, db } = await scene(t)
  const attempts: number[] = []
  const flow = workflow<null, string>('flow', { maxAttempts: 1, retry: { attempts: 1 } }, (run) =>
    run.step('a', ({ attempt }) => {
      attempts.push(attempt)
      if (attempts.length < 3) throw new Snooze('1h')
      return 'done'
    }),
  )
  const { jobId } = await start(lh, flow, null)
  for (let n = 1; n <= 3; n++) {
    await lh.drain([handleRuns(flow)])
    assert.equal(attempts.length, n)
    await db.clock.advance('1 h')
  }
  assert.deepEqual([(await lh.get(jobId))!.result, attempts], ['done', [1, 1, 1]])
})

test('of two waits that have both ended, the first in the order of the code wins', async (t) => {
  const { lh } = await scene(t)
  const clock = await testClock(lh)
  const flow = workflow<null, unknown>('flow', {}, async (run) => {
    const first = await run.any({ late: run.sleep('1h'), go: run.signal('go') })
    return [first.name, await run.signal('go')] // The one that lost is still there.
  })
  const run = await start(lh, flow, null, { runId: 'r' })
  await lh.drain([handleRuns(flow)])
  await clock.advance('1h')
  await signal(lh, flow, 'r', 'go', 7)
  assert.deepEqual((await clock.runToEnd([handleRuns(flow)], run)).result, ['late', 7])
})

test('a payload that the schema refuses throws InvalidInputError into the code', async (t) => {
  const { lh } = await scene(t)
  const clock = await testClock(lh)
  const flow = workflow<null, unknown>('flow', {}, async (run) => {
    try {
      return await run.signal('go', z.object({ at: z.number() }))
    } catch (error) {
      return error instanceof InvalidInputError
    }
  })
  const run = await start(lh, flow, null, { runId: 'r' })
  await signal(lh, flow, 'r', 'go', { at: 'noon' })
  assert.equal((await clock.runToEnd([handleRuns(flow)], run)).result, true)
})
