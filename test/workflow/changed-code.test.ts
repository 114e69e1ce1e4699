// Code that was changed while runs are open.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { handleRuns, start, workflow } from '../../src/workflow/index.ts'
import { scene } from '../support/worker.ts'

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
