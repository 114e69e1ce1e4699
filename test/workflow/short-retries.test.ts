// Attempts of a step that follow each other quickly.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Fatal } from '../../src/index.ts'
import { handleRuns, start, workflow } from '../../src/workflow/index.ts'
import { gate } from '../support/gate.ts'
import { count, scene, statements } from '../support/worker.ts'

test('a short delay between attempts is waited for in the process, and each attempt is on record', async (t) => {
  const { lh, db, undo } = await scene(t)
  let slices = 0
  const retry = { attempts: 4, backoff: { first: 1, max: 1 } }
  const flow = workflow<null, number>('flow', { retry }, async (run) => {
    slices++
    return run.step('fourth time', ({ attempt }) => {
      if (attempt < 4) throw new Error('not yet')
      return attempt
    })
  })
  const { jobId } = await start(lh, flow, null)
  const sent = statements(undo)
  await lh.drain([handleRuns(flow)])
  assert.equal((await lh.get(jobId))!.result, 4)
  assert.deepEqual([slices, sent.filter((name) => name === 'step.record').length], [1, 4])
  assert.equal(await count(db, `from leasehold.step where state = 'retrying'`), 3)
})

test('a longer delay parks the run', async (t) => {
  const { lh, db } = await scene(t)
  let attempts = 0
  const retry = { attempts: 2, backoff: { first: 1_000, max: 1_000 } }
  const flow = workflow<null, void>('flow', { retry }, async (run) => {
    await run.step('twice', () => {
      if (attempts++ === 0) throw new Error('not yet')
    })
  })
  const { jobId } = await start(lh, flow, null)
  await lh.drain([handleRuns(flow)])
  assert.deepEqual([(await lh.get(jobId))!.status, attempts], ['pending', 1])
  await db.clock.advance('1 s')
  await lh.drain([handleRuns(flow)])
  assert.deepEqual([(await lh.get(jobId))!.status, attempts], ['completed', 2])
})

test('a run that is undone meanwhile makes no further attempt', async (t) => {
  const { lh } = await scene(t)
  const failed = gate()
  const done: string[] = []
  const retry = { attempts: 5, backoff: { first: 200, max: 200 } }
  const flow = workflow<null, unknown>('flow', { retry }, async (run) => {
    await run.step('a', { compensate: () => void done.push('undone') }, () => 1)
    const tries = run.step('tries', () => {
      done.push('tried')
      failed.open()
      throw new Error('no')
    })
    const fails = run.step('fails', async () => {
      await failed.opened
      throw new Fatal('no more')
    })
    return Promise.all([tries, fails])
  })
  const { jobId } = await start(lh, flow, null)
  await lh.drain([handleRuns(flow)])
  assert.equal((await lh.get(jobId))!.status, 'dead_letter')
  assert.deepEqual(done, ['tried', 'undone'])
})
