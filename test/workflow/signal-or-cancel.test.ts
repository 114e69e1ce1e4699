// A signal and a cancellation come to one run at once: it has one outcome, and the records fit it.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { Lane } from '../../src/db/lane.ts'
import { CANCEL } from '../../src/jobs/operator.sql.ts'
import { getRun, handleRuns, signal, start, workflow } from '../../src/workflow/index.ts'
import { gate } from '../support/gate.ts'
import { until } from '../support/until.ts'
import { scene, statements } from '../support/worker.ts'

/** A run that does a step, waits for a signal, and does another one. */
async function waiting(t: TestContext) {
  const s = await scene(t)
  const done: string[] = []
  const [entered, goes] = [gate(), gate()]
  const flow = workflow<'parks' | 'stays', string>('flow', {}, async (run, how) => {
    const does = (name: string) =>
      run.step(name, { compensate: () => void done.push(`-${name}`) }, () => void done.push(name))
    await does('a')
    if (how === 'stays') {
      void run.step('beside', async () => {
        entered.open()
        await goes.opened
      })
    }
    await run.signal('go')
    await does('b')
    return 'done'
  })
  const send = () => signal(s.lh, flow, 'r', 'go')
  /** How it has ended. What was done is undone, and the signal is consumed if its wait is on record. */
  const ended = async () => {
    const { status, signals, steps } = (await getRun(s.lh, flow, 'r'))!
    const isReceived = steps.some(({ type }) => type === 'signal')
    assert.deepEqual(
      signals.map(({ consumed }) => consumed),
      [isReceived],
    )
    const before = done.filter((name) => !name.startsWith('-'))
    const undone = before.toReversed().map((name) => `-${name}`)
    assert.deepEqual(done, status === 'cancelled' ? [...before, ...undone] : ['a', 'b'])
    return status
  }
  return { ...s, flow, send, ended, entered, goes }
}

for (const order of ['signal, cancel', 'cancel, signal'] as const) {
  test(`a run that gets both while it is parked is cancelled and undone: ${order}`, async (t) => {
    const { lh, flow, send, ended } = await waiting(t)
    const { jobId } = await start(lh, flow, 'parks', { runId: 'r' })
    await lh.drain([handleRuns(flow)])
    for (const what of order.split(', ')) await (what === 'signal' ? send() : lh.cancel(jobId))
    await lh.drain([handleRuns(flow)])
    assert.equal(await ended(), 'cancelled')
  })
}

test('a run that is cancelled while the end of its wait is being recorded is undone behind the signal, or completes', async (t) => {
  const { lh, db, worker, undo, flow, send, ended, entered, goes } = await waiting(t)
  const { jobId } = await start(lh, flow, 'stays', { runId: 'r' })
  worker([handleRuns(flow)])
  await entered.opened
  const operator = await db.connect()
  await operator.query('begin')
  await new Lane(operator).run(CANCEL, [`{${jobId}}`, null, 'no longer'])
  const sent = statements(undo)
  await send()
  // The row is locked, so the record is sent again and again.
  await until('it was refused', () => sent.filter((name) => name === 'step.record').length > 2)
  await operator.query('commit')
  goes.open()
  const { status } = await lh.waitFor(jobId)
  // It has completed if its code returned before the worker knew of the cancellation.
  assert.ok(['cancelled', 'completed'].includes(status))
  assert.equal(await ended(), status)
})

test('a run that has completed on the signal is not cancelled', async (t) => {
  const { lh, flow, send, ended } = await waiting(t)
  const { jobId } = await start(lh, flow, 'parks', { runId: 'r' })
  await lh.drain([handleRuns(flow)])
  await send()
  await lh.drain([handleRuns(flow)])
  assert.equal(await lh.cancel(jobId), 'not_found')
  assert.equal(await ended(), 'completed')
})
