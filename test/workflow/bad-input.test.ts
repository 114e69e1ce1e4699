// What a workflow may not do gets a typed error, and leaves a run that can go on.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { z } from 'zod'
import { kind, queue } from '../../src/index.ts'
import { type Code, handleRuns, type Run, retryFrom, signal, start, workflow } from '../../src/workflow/index.ts'
import { codeOf, nothingHeld, scene } from '../support/worker.ts'

const FAST = { retry: { attempts: 1, backoff: { first: 1, max: 1 } }, backoff: { first: 1, max: 1 } } as const

/** A run of this code, executed until nothing is left to do. */
async function ended(t: TestContext, code: Code<null, unknown>) {
  const { lh, db } = await scene(t)
  const flow = workflow<null, unknown>('flow', { ...FAST, maxAttempts: 1 }, code)
  const { jobId } = await start(lh, flow, null)
  await lh.drain([handleRuns(flow)])
  await nothingHeld(db)
  const { status, result, lastError } = (await lh.get(jobId))!
  return { status, result, error: lastError as { code?: string; name?: string; message?: string } | null }
}

const LONG = 'x'.repeat(10_000)
/** What code may not do, and the code of the error that it gets. */
const REFUSED: Readonly<Record<string, (run: Run) => unknown>> = {
  'a name of 10 kB': (run) => run.step(LONG, () => 1),
  'a name that is empty': (run) => run.step([], () => 1),
  'a name with a NUL': (run) => run.step('a\0', () => 1),
  'a name with half a surrogate pair': (run) => run.step('\ud800', () => 1),
  'a step without a function': (run) => run.step('a', {} as never),
  'an unknown option of a step': (run) => run.step('a', { retries: 3 } as never, () => 1),
  'a negative sleep': (run) => run.sleep(-1),
  'a sleep of a thousand years': (run) => run.sleep('365000d'),
  'a sleep that is not a number': (run) => run.sleep(Number.NaN),
  'a signal name of jobs': (run) => run.signal('job 17'),
  'any of nothing': (run) => run.any({}),
  'any of something else': (run) => run.any({ a: Promise.resolve() as never }),
  'a job without a kind': (run) => run.job(undefined as never, null as never),
  'an unknown option of a job': (run) => run.job(kind<null>('k', {}), null, { retries: 1 } as never),
  'a child without a workflow': (run) => run.child({} as never, null as never),
  'a reason that is empty': (run) => run.compensate(''),
  'a patch without a name': (run) => run.patched(''),
  'two parallel steps of one name': (run) => Promise.all([run.step('twice', () => 1), run.step('twice', () => 2)]),
}

test('what code may not ask for is refused with INVALID_OPTION, in its place', async (t) => {
  const { status, result } = await ended(t, async (run) => {
    const codes: Record<string, string> = {}
    for (const [what, ask] of Object.entries(REFUSED)) codes[what] = await codeOf(() => ask(run))
    return codes
  })
  const expected = Object.fromEntries(Object.keys(REFUSED).map((what) => [what, 'INVALID_OPTION']))
  assert.deepEqual([status, result], ['completed', expected])
})

test('a step inside a step fails the outer step', async (t) => {
  const { status, error } = await ended(t, (run) => run.step('outer', () => run.step('inner', () => 1)))
  assert.equal(status, 'dead_letter')
  assert.match(error!.message!, /outer.*inside step/s)
})

test('a result over the limit fails the step for good, without a second attempt', async (t) => {
  let times = 0
  const { status, result } = await ended(t, async (run) =>
    codeOf(() =>
      run.step('large', { retry: { attempts: 5 } }, () => {
        times++
        return 'x'.repeat(5_000_000)
      }),
    ),
  )
  assert.deepEqual([status, result, times], ['completed', 'STEP_FAILED', 1])
})

test('results that are not JSON are repaired, and the first execution sees what a later one sees', async (t) => {
  const { lh, db } = await scene(t)
  const seen: string[] = []
  const flow = workflow<null, void>('flow', FAST, async (run) => {
    const circular: Record<string, unknown> = { nul: 'a\0b', half: '\ud800', big: 2n, fine: Number.NaN }
    circular.self = circular
    const results = [
      await run.step('circular', () => circular),
      await run.step('function', () => () => 1),
      await run.step('proxy', () => new Proxy({}, { ownKeys: () => assert.fail('no') })),
      await run.step('keys', () => ({ long: 1, b: 2, a: 3 })),
    ]
    seen.push(JSON.stringify(results))
    await run.sleep('1h')
  })
  const { jobId } = await start(lh, flow, null)
  await lh.drain([handleRuns(flow)])
  await db.clock.advance('1 h')
  await lh.drain([handleRuns(flow)])
  assert.equal((await lh.get(jobId))!.status, 'completed')
  assert.deepEqual([seen.length, seen[1]], [2, seen[0]])
})

for (const [what, thrown] of [
  ['undefined', undefined],
  ['a text', 'oh'],
  [
    'a circular object',
    Object.assign(
      {},
      {
        get self() {
          return this
        },
      },
    ),
  ],
] as const) {
  test(`code that throws ${what} becomes a dead letter`, async (t) => {
    const { status } = await ended(t, async () => {
      throw thrown
    })
    assert.equal(status, 'dead_letter')
  })
}

test('rejections that the code never awaits do not end the process', async (t) => {
  const { status, result } = await ended(t, async (run) => {
    void run.step('fails', () => Promise.reject(new Error('no')))
    void run.tx('fails too', () => Promise.reject(new Error('no')))
    void run.note('a note')
    void run.any({})
    await run.step('fine', () => 1)
    return 'done'
  })
  assert.deepEqual([status, result], ['completed', 'done'])
})

test('signals are checked before anything is sent', async (t) => {
  const { lh } = await scene(t)
  const flow = workflow<null, void>('flow', {}, async () => {})
  await start(lh, flow, null, { runId: 'r' })
  const circular: Record<string, unknown> = {}
  circular.self = circular
  assert.equal(await codeOf(() => signal(lh, flow, 'r', LONG)), 'INVALID_OPTION')
  assert.equal(await codeOf(() => signal(lh, flow, 'r', 'a\0')), 'INVALID_OPTION')
  assert.equal(await codeOf(() => signal(lh, flow, 'r', 'a', 'a\0')), 'VALUE_NOT_STORABLE')
  assert.equal(await codeOf(() => signal(lh, flow, 'r', 'a', '\ud800')), 'VALUE_NOT_STORABLE')
  assert.equal(await codeOf(() => signal(lh, flow, 'r', 'a', circular)), 'VALUE_NOT_STORABLE')
  assert.equal(await codeOf(() => signal(lh, flow, 'r', 'a', 1, { key: 'k' } as never)), 'INVALID_OPTION')
  assert.equal(await codeOf(() => signal(lh, {} as never, 'r', 'a')), 'INVALID_OPTION')
  assert.equal(await codeOf(() => start(lh, {} as never, null)), 'INVALID_OPTION')
  assert.equal(await codeOf(() => start(lh, flow, null, { id: 'r' } as never)), 'INVALID_OPTION')
})

test('an input that no longer parses makes the run a dead letter, and it is redriven by code that takes it', async (t) => {
  const { lh } = await scene(t)
  const flow = (input: z.ZodType<number | string>) => workflow('flow', { input }, async (_, value) => value)
  const { jobId } = await start(lh, flow(z.string()), 'text')
  await lh.drain([handleRuns(flow(z.number()))])
  const { status, reason } = (await lh.get(jobId))!
  assert.deepEqual([status, reason], ['dead_letter', 'invalid_input'])
  await lh.redrive(jobId)
  await lh.drain([handleRuns(flow(z.string()))])
  assert.equal((await lh.get(jobId))!.result, 'text')
})

test('a workflow on an ordered queue is refused', async (t) => {
  const { lh } = await scene(t)
  await lh.configure([queue('flow', { ordered: true })])
  const flow = workflow<null, void>('flow', {}, async () => {})
  assert.equal(await codeOf(() => start(lh, flow, null)), 'INVALID_OPTION')
})

test('a run that has ended is not retried from a step, and is not said to be unknown', async (t) => {
  const { lh } = await scene(t)
  const flow = workflow<null, void>('flow', FAST, (run) => run.step('a', () => {}))
  await start(lh, flow, null, { runId: 'r' })
  await lh.drain([handleRuns(flow)])
  for (const [runId, code] of Object.entries({ r: 'RUN_FINISHED', unknown: 'RUN_NOT_FOUND' })) {
    assert.equal(await codeOf(() => retryFrom(lh, flow, runId, { step: 'a' })), code)
  }
})
