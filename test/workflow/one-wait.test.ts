// A wait ends once, and has one value: awaited, in any(), before, after, or both, and when the run resumes.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { handle, kind } from '../../src/index.ts'
import { testClock } from '../../src/testing/index.ts'
import { type Code, handleRuns, type Run, signal, start, workflow } from '../../src/workflow/index.ts'
import { count, type Scene, scene } from '../support/worker.ts'

const task = kind<number>('task', {}).returns<number>()
const tasks = handle(task, ({ input }) => 2 * input)

/** The result of this code, with two signals `go`: 1 and 2. It is executed once more behind all that it did. */
async function played(t: TestContext, code: Code<null, unknown>) {
  const s: Scene = await scene(t)
  const clock = await testClock(s.lh)
  const flow = workflow<null, unknown>('flow', { maxAttempts: 1 }, async (run, input) => {
    const result = await code(run, input)
    await run.sleep('1h', { name: 'then' })
    return result
  })
  const run = await start(s.lh, flow, null, { runId: 'r' })
  for (const n of [1, 2]) await signal(s.lh, flow, 'r', 'go', n)
  const { status, result, lastError } = await clock.runToEnd([handleRuns(flow), tasks], run)
  assert.equal(status, 'completed', JSON.stringify(lastError))
  return { ...s, result, consumed: await count(s.db, `from leasehold.signal where consumed and name = 'go'`) }
}

const codes: Record<string, { code: (run: Run) => Promise<unknown>; result: unknown; consumed: number }> = {
  'a signal that won in any() is awaited': {
    code: async (run) => {
      const go = run.signal('go')
      const first = await run.any({ go, late: run.sleep('1h') })
      return [first, await go, await go]
    },
    result: [{ name: 'go', value: 1 }, 1, 1],
    consumed: 1,
  },
  'a signal that won in any() wins in the next one': {
    code: async (run) => {
      const go = run.signal('go')
      const first = await run.any({ go, late: run.sleep('1h') })
      const second = await run.any({ late: run.sleep('1h'), go })
      return [first.value, second.value]
    },
    result: [1, 1],
    consumed: 1,
  },
  'a signal is awaited, and then passed to any()': {
    code: async (run) => {
      const go = run.signal('go')
      const value = await go
      await run.sleep('1h')
      return [value, (await run.any({ go, late: run.sleep('1h') })).value]
    },
    result: [1, 1],
    consumed: 1,
  },
  'a signal is awaited in one branch, and by any() in another': {
    code: async (run) => {
      const go = run.signal('go')
      const [value, first] = await Promise.all([go, run.any({ go, late: run.sleep('1h') })])
      return [value, first.value]
    },
    result: [1, 1],
    consumed: 1,
  },
  'another wait for the name gets the next signal': {
    code: async (run) => {
      const go = run.signal('go')
      await run.any({ go, late: run.sleep('1h') })
      return [await go, await run.signal('go')]
    },
    result: [1, 2],
    consumed: 2,
  },
  'a job that won in any() is awaited': {
    code: async (run) => {
      const job = run.job(task, 4)
      const first = await run.any({ job, late: run.sleep('1d') })
      return [first.value, await job]
    },
    result: [8, 8],
    consumed: 0,
  },
  'a job is awaited in one branch, and by any() in another': {
    code: async (run) => {
      const job = run.job(task, 4)
      const [value, first] = await Promise.all([job, run.any({ job, late: run.sleep('1d') })])
      return [value, first.value, (await run.any({ job })).value]
    },
    result: [8, 8, 8],
    consumed: 0,
  },
  'a sleep that won in any() is awaited': {
    code: async (run) => {
      const late = run.sleep('1h')
      const first = await run.any({ never: run.signal('never'), late })
      await late
      return [first.name, (await run.any({ late, never: run.signal('never') })).name]
    },
    result: ['late', 'late'],
    consumed: 0,
  },
}

for (const [what, { code, result, consumed }] of Object.entries(codes)) {
  test(`${what}: one value`, async (t) => {
    const found = await played(t, code)
    assert.deepEqual([found.result, found.consumed], [result, consumed])
    assert.ok((await count(found.db, `from leasehold.jobs where kind = 'task'`)) <= 1, 'the job is started once')
  })
}

test('a payload that the schema refuses is refused wherever the wait is used', async (t) => {
  const { result } = await played(t, async (run) => {
    const refuses = {
      '~standard': { version: 1 as const, vendor: 'test', validate: () => ({ issues: [{ message: 'no' }] }) },
    }
    const go = run.signal('go', refuses)
    const code = (error: { code: string }) => error.code
    const first = await run.any({ go, late: run.sleep('1h') }).catch(code)
    return [first, await Promise.resolve(go).catch(code)]
  })
  assert.deepEqual(result, ['INVALID_INPUT', 'INVALID_INPUT'])
})
