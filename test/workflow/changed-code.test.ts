// Code that was changed while runs are open.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { handleRuns, type Run, retryFrom, start, type WorkflowOptions, workflow } from '../../src/workflow/index.ts'
import { gate } from '../support/gate.ts'
import { manyTurns } from '../support/held-runs.ts'
import { until } from '../support/until.ts'
import { next, scene } from '../support/worker.ts'

const FAST = { retry: { backoff: { first: 1, max: 1 } }, backoff: { first: 1, max: 1 } } as const

test('changed code that does not reach a recorded step does nothing, and names the step', async (t) => {
  const { lh, db } = await scene(t)
  const done: string[] = []
  const options = { ...FAST, maxAttempts: 1 }
  const before = workflow<null, void>('flow', options, async (run) => {
    await run.step('one', () => {})
    await run.sleep('1h')
  })
  const { jobId } = await start(lh, before, null)
  await lh.drain([handleRuns(before)])
  const after = workflow<null, void>('flow', options, async (run) => {
    await run.step('another', () => void done.push('another'))
  })
  await db.clock.advance('1 h')
  await lh.drain([handleRuns(after)])
  const job = await lh.get(jobId)
  assert.equal(job!.status, 'dead_letter')
  assert.match(JSON.stringify(job!.lastError), /WORKFLOW_CHANGED|recorded \\?"one/)
  assert.deepEqual(done, [])
})

test('runs that have passed a patch keep the old path, and others take the new one', async (t) => {
  const { lh, db } = await scene(t)
  const done: string[] = []
  const flow = (isPatched: boolean) =>
    workflow<string, void>('flow', FAST, async (run, id) => {
      await run.step('first', () => {})
      if (id === 'waits here') await run.sleep('1h')
      if (isPatched && run.patched('fraud check')) await run.step('check', () => void done.push(`check ${id}`))
      await run.step('second', () => void done.push(`second ${id}`))
      await run.sleep('1h')
    })
  await start(lh, flow(false), 'has passed')
  await start(lh, flow(false), 'waits here')
  await lh.drain([handleRuns(flow(false))])
  assert.deepEqual(done, ['second has passed'])
  await start(lh, flow(true), 'new')
  for (let i = 0; i < 3; i++) {
    await lh.drain([handleRuns(flow(true))])
    await db.clock.advance('1 h')
  }
  assert.deepEqual(done.slice(1).toSorted(), ['check new', 'check waits here', 'second new', 'second waits here'])
})

test('a run that sleeps behind a patch keeps the old path, though no step came after it', async (t) => {
  const { lh, db } = await scene(t)
  const done: string[] = []
  const flow = (isPatched: boolean) =>
    workflow<null, void>('flow', FAST, async (run) => {
      await run.step('first', () => {})
      if (isPatched && run.patched('check')) await run.step('check', () => void done.push('check'))
      await run.sleep('1h')
      await run.step('last', () => void done.push('last'))
    })
  await start(lh, flow(false), null)
  await lh.drain([handleRuns(flow(false))])
  await db.clock.advance('1 h')
  await lh.drain([handleRuns(flow(true))])
  assert.deepEqual(done, ['last'])
})

test('code that has lost a step in the middle is found out, although nothing new was asked for', async (t) => {
  const { lh, db } = await scene(t)
  const options = { ...FAST, maxAttempts: 1 }
  const flow = (isWhole: boolean) =>
    workflow<null, void>('flow', options, async (run) => {
      if (isWhole) await run.step('one', () => {})
      await run.step('two', () => {})
      await run.sleep('1h')
    })
  const { jobId } = await start(lh, flow(true), null)
  await lh.drain([handleRuns(flow(true))])
  await db.clock.advance('1 h')
  await lh.drain([handleRuns(flow(false))])
  const job = await lh.get(jobId)
  assert.equal(job!.status, 'dead_letter')
  assert.match(job!.lastError!.message, /has recorded "one", which this code does not reach/)
  await lh.redrive(jobId)
  await lh.drain([handleRuns(flow(true))])
  assert.equal((await lh.get(jobId))!.status, 'completed')
})

/** A run that can undo one step, and waits. Then its code is changed: the step has another name. */
async function renamed(t: TestContext, options: Partial<WorkflowOptions> = {}) {
  const { lh, db, worker } = await scene(t)
  const undone: string[] = []
  const flow = (name: string, before = async (_: Run) => {}) =>
    workflow<null, void>('flow', { ...FAST, maxAttempts: 1, ...options, input: undefined }, async (run) => {
      await before(run)
      await run.step(name, { compensate: () => void undone.push(name) }, () => {})
      await run.signal('never')
    })
  const { jobId } = await start(lh, flow('reserve'), null, { runId: 'r' })
  const drain = (name: string) => lh.drain([handleRuns(flow(name))])
  await drain('reserve')
  const stands = async () => (await lh.get(jobId))!
  return { lh, db, worker, flow, jobId, drain, stands, undone }
}

test('a run that is cancelled undoes nothing while its code does not fit, and all of it once the code fits again', async (t) => {
  const { lh, jobId, drain, stands, undone } = await renamed(t)
  await lh.cancel(jobId, { reason: 'customer left' })
  await drain('reserve stock')
  const job = await stands()
  assert.deepEqual([job.status, undone], ['dead_letter', []])
  assert.match(job.lastError!.message, /has recorded "reserve", which this code does not reach/)
  await lh.redrive(jobId)
  await drain('reserve')
  const { status, reason } = await stands()
  assert.deepEqual([status, reason, undone], ['cancelled', 'customer left', ['reserve']])
})

test('a run past its deadline undoes nothing while its code does not fit, and all of it once the code fits again', async (t) => {
  const { lh, db, jobId, drain, stands, undone } = await renamed(t, { deadline: '1d' })
  await db.clock.advance('2 d')
  await drain('reserve stock')
  const job = await stands()
  assert.deepEqual([job.status, undone], ['dead_letter', []])
  assert.match(job.lastError!.message, /has recorded "reserve", which this code does not reach/)
  await lh.redrive(jobId)
  await drain('reserve')
  const { status, lastError } = await stands()
  assert.deepEqual([status, lastError!.message, undone], ['dead_letter', 'its deadline has passed', ['reserve']])
})

for (const [name, ends] of [
  ['reserve stock', ['dead_letter', []]],
  ['reserve', ['cancelled', ['reserve']]],
] as const) {
  test(`a run that is cancelled in front of its step ${name} ends as ${ends[0]}`, async (t) => {
    const { lh, db, worker, flow, jobId, stands, undone } = await renamed(t)
    const [entered, goes] = [gate(), gate()]
    const late = flow(name, async (run) => {
      run.signal('another').then(undefined, () => {}) // Something new: what is on record has to be reached first.
      entered.open()
      await goes.opened
      await manyTurns()
    })
    const busy = worker([handleRuns(late)])
    await db.pool.query('update leasehold.job set available_at = leasehold.clock(), waiting_for = null')
    await entered.opened
    const aborted = next(busy, 'aborted')
    await lh.cancel(jobId)
    await aborted
    goes.open()
    await until('it has ended', async () => !['pending', 'processing'].includes((await stands()).status))
    assert.deepEqual([(await stands()).status, undone], ends)
  })
}

test('a run that was to be cancelled goes on when it is retried from a step', async (t) => {
  const { lh, flow, jobId, drain, stands, undone } = await renamed(t)
  await lh.cancel(jobId)
  await drain('reserve stock')
  assert.equal(await retryFrom(lh, flow('reserve stock'), 'r', { step: 'reserve' }), 'retried')
  await drain('reserve stock')
  assert.deepEqual([(await stands()).status, (await stands()).label, undone], ['pending', 'waiting', []])
})
