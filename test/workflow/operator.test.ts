// Operators and runs: deadlines, terminate, the timeline, retry from a step, versions that no worker handles.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  getRun,
  handleRuns,
  pauseRun,
  RunFinishedError,
  resumeRun,
  retryFrom,
  signal,
  start,
  terminate,
  workflow,
} from '../../src/workflow/index.ts'
import { gate } from '../support/gate.ts'
import { until } from '../support/until.ts'
import { next, scene } from '../support/worker.ts'

const FAST = { retry: { backoff: { first: 1, max: 1 } }, backoff: { first: 1, max: 1 } } as const

test('a run past its deadline compensates and becomes a dead letter', async (t) => {
  const { lh, db } = await scene(t)
  const undone: string[] = []
  const flow = workflow<null, void>('flow', { ...FAST, deadline: '1d' }, async (run) => {
    await run.step('a', { compensate: () => void undone.push('a') }, () => 'a')
    await run.signal('never')
  })
  const { jobId } = await start(lh, flow, null)
  await lh.drain([handleRuns(flow)])
  await db.clock.advance('23 h')
  assert.equal((await lh.drain([handleRuns(flow)])).snoozed, 0, 'it sleeps until its deadline')
  await db.clock.advance('1 h')
  await lh.drain([handleRuns(flow)])
  const job = await lh.get(jobId)
  assert.deepEqual([job!.status, job!.reason, undone], ['dead_letter', 'fatal', ['a']])
})

test('a run that is terminated ends at once, and the worker that executes it writes nothing more', async (t) => {
  const { lh, worker, db } = await scene(t)
  const entered = gate()
  const left = gate()
  const flow = workflow<null, void>('flow', FAST, async (run) => {
    await run.step('a', { compensate: () => assert.fail('it must not compensate') }, () => 'a')
    await run.step('b', async () => {
      entered.open()
      await left.opened
    })
    await run.step('c', () => assert.fail('it must not go on'))
  })
  const { jobId, runId } = await start(lh, flow, null)
  const ran = worker([handleRuns(flow)])
  await entered.opened
  assert.equal(await terminate(lh, flow, runId, { reason: 'wrong customer', by: 'ada' }), 'ended')
  left.open()
  const job = await lh.get(jobId)
  assert.deepEqual([job!.status, job!.reason], ['cancelled', 'wrong customer'])
  await until('the worker has lost it', async () => ran.tally.cancelled > 0)
  assert.deepEqual((await db.pool.query('select name from leasehold.step order by place')).rows, [{ name: 'a' }])
  assert.equal(await terminate(lh, flow, runId), 'not_found')
})

test('a run shows its timeline, and goes on from a chosen step', async (t) => {
  const { lh } = await scene(t)
  let isBroken = true
  const done: string[] = []
  const flow = workflow<null, string>('flow', { ...FAST, retry: { attempts: 1 } }, async (run) => {
    await run.step('reserve', () => void done.push('reserve'))
    const quote = await run.step('quote', () => (isBroken ? 'wrong' : 'right'))
    await run.step('charge', () => {
      if (quote === 'wrong') throw new Error('no such quote')
    })
    return quote
  })
  const { jobId } = await start(lh, flow, null, { runId: 'r' })
  await lh.drain([handleRuns(flow)])
  const failed = await getRun(lh, flow, 'r')
  assert.equal(failed!.status, 'dead_letter')
  assert.deepEqual(
    failed!.steps.map(({ name, state, error }) => [name, state, error?.message]),
    [
      ['reserve', 'recorded', undefined],
      ['quote', 'recorded', undefined],
      ['charge', 'failed', 'no such quote'],
    ],
  )
  isBroken = false
  assert.equal(await retryFrom(lh, flow, 'r', { step: 'nothing' }), 'no_such_step')
  assert.equal(await retryFrom(lh, flow, 'r', { step: 'quote' }), 'retried')
  await lh.drain([handleRuns(flow)])
  assert.equal((await lh.get(jobId))!.result, 'right')
  assert.deepEqual(done, ['reserve'])
  assert.equal(await getRun(lh, flow, 'another'), undefined)
})

test('a version that no live worker handles is announced, and its runs wait', async (t) => {
  const { lh, worker, db, log } = await scene(t)
  const flow = (version: number) => workflow<null, void>('flow', { version }, async () => {})
  const { jobId } = await start(lh, flow(1), null)
  await db.clock.advance('2 m')
  const ran = worker([handleRuns(flow(2))])
  const waiting = await next(ran, 'unhandled_version')
  assert.deepEqual(waiting, { queue: 'flow', kind: 'flow@1', jobs: 1 })
  assert.match(log.find(({ level }) => level === 'error')!.message, /1 runs of flow@1 wait/)
  const job = await lh.get(jobId)
  assert.deepEqual([job!.status, job!.attempts], ['pending', 0])
})

test('a run that is paused takes no step until it is resumed, however it was caught', async (t) => {
  const { lh, db } = await scene(t)
  const done: string[] = []
  let whileItRuns = async () => {}
  const flow = workflow<null, string>('flow', FAST, async (run) => {
    const first = await run.signal<string>('first')
    await run.step('one', async () => {
      done.push('one')
      await whileItRuns()
    })
    const second = await run.signal<string>('second')
    return `${first} ${second}`
  })
  const { jobId } = await start(lh, flow, null, { runId: 'r' })
  const drain = () => lh.drain([handleRuns(flow)])
  await drain()
  assert.equal(await pauseRun(lh, flow, 'r', { by: 'ada' }), 'paused', 'while it waits')
  assert.equal(await pauseRun(lh, flow, 'r'), 'already_paused')
  await signal(lh, flow, 'r', 'first', 'a')
  await drain()
  assert.deepEqual([(await lh.get(jobId))!.label, done], ['paused', []])
  whileItRuns = async () => void (await pauseRun(lh, flow, 'r'))
  assert.equal(await resumeRun(lh, flow, 'r'), 'resumed')
  await drain()
  assert.deepEqual(done, ['one'])
  await signal(lh, flow, 'r', 'second', 'b')
  await drain()
  assert.equal((await lh.get(jobId))!.label, 'paused', 'while it was executed')
  await resumeRun(lh, flow, 'r')
  // A worker dies with it, and it is paused meanwhile.
  const [held] = await lh.claim(flow.kind, { lease: '30s' })
  assert.equal(await pauseRun(lh, flow, 'r'), 'paused')
  assert.ok(held)
  await db.clock.advance('31 s')
  await drain()
  await drain()
  assert.deepEqual([(await lh.get(jobId))!.label, (await lh.get(jobId))!.status], ['paused', 'pending'])
  await resumeRun(lh, flow, 'r')
  await drain()
  assert.equal((await lh.get(jobId))!.result, 'a b')
  await assert.rejects(pauseRun(lh, flow, 'r'), RunFinishedError)
})
