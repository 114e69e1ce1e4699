// Compensations that fail: what becomes of the others, of the run, and how an operator lets it go on.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { Cancel, Fatal } from '../../src/index.ts'
import { testClock } from '../../src/testing/index.ts'
import { getRun, handleRuns, type Run, retryFrom, signal, start, workflow } from '../../src/workflow/index.ts'
import { codeOf, scene } from '../support/worker.ts'

/** A run of steps that note what they do and undo, until those of `broken` are not to be undone; and then it does this. */
async function undone(
  t: TestContext,
  steps: readonly string[],
  broken: Set<string>,
  does: (run: Run) => Promise<unknown>,
) {
  const { lh } = await scene(t)
  const clock = await testClock(lh)
  const done: string[] = []
  const flow = workflow<null, unknown>('flow', { maxAttempts: 1, retry: { attempts: 2 } }, async (run) => {
    for (const [index, step] of steps.entries()) {
      const undo = () => {
        done.push(`-${step}${index}`)
        if (broken.has(`${step}${index}`)) throw new Error('the bank refuses')
      }
      await run.step(step, { compensate: undo }, () => void done.push(`${step}${index}`))
    }
    return does(run)
  })
  const run = await start(lh, flow, null, { runId: 'r' })
  const toEnd = () => clock.runToEnd([handleRuns(flow)], run)
  const retry = (compensation: string, nth = 1) => retryFrom(lh, flow, 'r', { compensation, nth })
  return { lh, flow, run, done, toEnd, retry, job: await toEnd() }
}

const fails = async () => {
  throw new Fatal('no parcel')
}
const waits = async (run: Run) => {
  await run.signal('never')
  return run.step('later', () => assert.fail('it was undone, and must not go on'))
}

test('after a compensation that has failed for good the others run, and the error names it', async (t) => {
  const { job, done } = await undone(t, ['a', 'b', 'c'], new Set(['b1']), fails)
  assert.equal(job.status, 'dead_letter')
  assert.deepEqual(done, ['a0', 'b1', 'c2', '-c2', '-b1', '-b1', '-a0'], 'tried as often as its step')
  const { message } = job.lastError!
  assert.match(message, /^Not all was undone\. .*"b" \(Error: the bank refuses\)\. Why it was undone: no parcel$/)
})

test('a branch that the code left behind when it failed stands still, and does not end the process', async (t) => {
  const behind = async (run: Run) => {
    await run.signal('never')
    assert.fail('it was undone, and must not go on')
  }
  const { job, done } = await undone(t, ['a'], new Set(), async (run) => {
    const late = behind(run)
    const step = run.step('charge', fails)
    const beside = (async () => {
      await step.catch(() => {})
      await run.step('after', () => assert.fail('it was undone, and must not go on'))
    })()
    await step
    await Promise.all([late, beside])
  })
  assert.equal(job.status, 'dead_letter')
  assert.deepEqual(done, ['a0', '-a0'])
})

const undoings: Record<string, (run: Run) => Promise<unknown>> = {
  'one branch, while another waits': (run) =>
    Promise.all([
      run.signal('never'),
      (async () => {
        await run.step('charge', () => 1)
        await run.compensate('no')
      })(),
    ]),
  'one branch, while another that nothing awaits waits': async (run) => {
    const late = waits(run)
    await run.compensate('no')
    await late
  },
  'two branches at once': (run) => Promise.all([run.compensate('no'), run.compensate('nor this')]),
  'one branch, while a step fails for good': async (run) => {
    const undoing = run.compensate('no')
    await run.step('charge', fails)
    await undoing
  },
  'code that does not await it': async (run) => {
    void run.compensate('no')
    await run.signal('never')
  },
  'code that does not await it, and returns': async (run) => void run.compensate('no'),
  'code that catches its error, and returns': (run) => run.compensate('no').catch(() => 'done'),
}

for (const [who, does] of Object.entries(undoings)) {
  test(`run.compensate() undoes all and ends the run as cancelled, called by ${who}`, async (t) => {
    const { job, done } = await undone(t, ['a', 'b'], new Set(), does)
    assert.deepEqual(
      [job.status, job.reason, done],
      ['cancelled', 'no', ['a0', 'b1', '-b1', '-a0']],
      job.lastError?.message,
    )
  })
}

test('all compensations that have failed are named', async (t) => {
  const { job } = await undone(t, ['a', 'b', 'c'], new Set(['a0', 'c2']), (run) => run.compensate('never shipped'))
  assert.equal(job.status, 'dead_letter')
  assert.match(job.lastError!.message, /"c" \(.*"a" \(.*never shipped$/)
})

test('a run that ends as a dead letter for this is undone no further by a redrive, and does not go on', async (t) => {
  const broken = new Set(['b1'])
  const { lh, run, done, toEnd } = await undone(t, ['a', 'b'], broken, waits)
  await lh.cancel(run.jobId, { reason: 'customer left' })
  assert.equal((await toEnd()).status, 'dead_letter')
  broken.clear()
  const before = done.length
  await lh.redrive(run.jobId)
  assert.equal((await toEnd()).status, 'dead_letter')
  assert.equal(done.length, before)
})

test('a compensation that has failed is retried alone, and the run ends as it would have', async (t) => {
  const broken = new Set(['b1'])
  const failed = await undone(t, ['a', 'b', 'c'], broken, fails)
  broken.clear()
  const before = failed.done.length
  assert.equal(await failed.retry('nothing'), 'no_such_step')
  assert.equal(await failed.retry('b', 2), 'no_such_step')
  assert.equal(await failed.retry('b'), 'retried')
  const job = await failed.toEnd()
  assert.deepEqual([job.status, job.lastError!.message], ['dead_letter', 'no parcel'])
  assert.deepEqual(failed.done.slice(before), ['-b1'], 'nothing else is undone twice')
})

test('a cancelled run whose compensation is retried ends as cancelled', async (t) => {
  const broken = new Set(['b1'])
  const { lh, run, flow, done, toEnd, retry } = await undone(t, ['a', 'b'], broken, waits)
  await lh.cancel(run.jobId, { reason: 'customer left' })
  assert.equal((await toEnd()).status, 'dead_letter')
  broken.clear()
  assert.equal(await retry('b'), 'retried')
  assert.equal((await toEnd()).status, 'cancelled')
  assert.deepEqual(done, ['a0', 'b1', '-b1', '-b1', '-a0', '-b1'])
  const { steps } = (await getRun(lh, flow, 'r'))!
  assert.deepEqual(
    steps.filter(({ type }) => type === 'compensation').map(({ name, state }) => `${name} ${state}`),
    ['a recorded', 'b recorded'],
  )
})

test('a cancelled run is a dead letter, too, if its code undoes itself and that fails', async (t) => {
  const { lh, run, toEnd } = await undone(t, ['a'], new Set(['a0']), async (run) => {
    try {
      return await run.signal('never')
    } catch {
      return run.compensate('cleaned up')
    }
  })
  await lh.cancel(run.jobId)
  const job = await toEnd()
  assert.equal(job.status, 'dead_letter')
  assert.match(job.lastError!.message, /"a" \(Error.*cleaned up$/)
})

test('a repeated step is a target by its number, and so is its compensation', async (t) => {
  const broken = new Set(['a1'])
  const { lh, flow, done, toEnd, retry } = await undone(t, ['a', 'a', 'a'], broken, fails)
  assert.deepEqual(done, ['a0', 'a1', 'a2', '-a2', '-a1', '-a1', '-a0'])
  broken.clear()
  assert.equal(await retry('a', 2), 'retried')
  await toEnd()
  assert.deepEqual(done.slice(7), ['-a1'])
  assert.equal(await retryFrom(lh, flow, 'r', { step: 'a', nth: 3 }), 'retried')
  await toEnd()
  assert.deepEqual(done.slice(8), ['a2', '-a2', '-a1', '-a0'])
})

test('a step is the target before a wait of the same name', async (t) => {
  const { lh } = await scene(t)
  const clock = await testClock(lh)
  let isBroken = true
  const flow = workflow<null, unknown>('flow', { retry: { attempts: 1 } }, async (run) => {
    const received = await run.signal('go')
    return run.step('go', () => (isBroken ? assert.fail('no') : received))
  })
  const run = await start(lh, flow, null, { runId: 'r' })
  await signal(lh, flow, 'r', 'go', 7)
  assert.equal((await clock.runToEnd([handleRuns(flow)], run)).status, 'dead_letter')
  isBroken = false
  assert.equal(await retryFrom(lh, flow, 'r', { step: 'go' }), 'retried')
  const { steps } = (await getRun(lh, flow, 'r'))!
  assert.deepEqual(
    steps.map(({ type }) => type),
    ['signal'],
  )
  assert.equal((await clock.runToEnd([handleRuns(flow)], run)).result, 7)
  for (const from of [{}, { step: 'go', compensation: 'go' }]) {
    assert.equal(await codeOf(() => retryFrom(lh, flow, 'r', from as never)), 'INVALID_OPTION')
  }
})

test('a run that is cancelled in front of a patch is undone', async (t) => {
  const { lh } = await scene(t)
  const clock = await testClock(lh)
  const done: string[] = []
  let isFixed = false
  const flow = workflow<null, void>('flow', {}, async (run) => {
    await run.step('a', { compensate: () => void done.push('-a') }, () => void done.push('a'))
    if (!isFixed) throw new Error('a bug')
    if (run.patched('b')) await run.step('b', () => void done.push('b'))
  })
  const run = await start(lh, flow, null)
  await lh.drain([handleRuns(flow)])
  isFixed = true
  await lh.cancel(run.jobId)
  const job = await clock.runToEnd([handleRuns(flow)], run)
  assert.deepEqual([job.status, done], ['cancelled', ['a', '-a']])
})

test('a run that is undone after its deadline waits for the next attempt of a compensation', async (t) => {
  const { lh } = await scene(t)
  const clock = await testClock(lh)
  let slices = 0
  const flow = workflow<null, void>('flow', { deadline: '1d', retry: { backoff: { first: '1h' } } }, async (run) => {
    if (++slices > 9) throw new Cancel('it is executed all the time')
    const undo = () => {
      if (slices < 3) throw new Error('not yet')
    }
    await run.step('a', { compensate: undo }, () => 1)
    await run.sleep('7d')
  })
  const run = await start(lh, flow, null)
  const job = await clock.runToEnd([handleRuns(flow)], run)
  assert.deepEqual([job.status, slices], ['dead_letter', 3])
})
