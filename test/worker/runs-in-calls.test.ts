// Jobs of a run in one call of a handler that takes runs: the worker records the beginning of the run and no more, however the
// handler, an operator or the clock ends them. Each run is claimed by the test, and each step is forced (test/support/held-runs.ts).
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { z } from 'zod'
import { Lane } from '../../src/db/lane.ts'
import { kind, withTransaction } from '../../src/index.ts'
import { claimSuspects, newClaimId } from '../../src/jobs/claim.ts'
import { enqueue } from '../../src/jobs/enqueue.ts'
import { sweep } from '../../src/jobs/housekeeping.ts'
import { type Gate, gate } from '../support/gate.ts'
import { type Call, heldCall, heldRuns, LEASE_MS, manyTurns, type step } from '../support/held-runs.ts'
import { movableTimers } from '../support/movable-clock.ts'
import { broken, nothingLeft } from '../support/order.ts'
import { newWorker } from '../support/queue.ts'
import { until } from '../support/until.ts'
import { count } from '../support/worker.ts'

const RUN = ['a1', 'a2', 'a3', 'a4']

/** Each input is read when the test opens its gate. Inputs with an x are refused. */
function gatedKind(gates: Readonly<Record<string, Gate>>) {
  const input = z.string().refine(async (text) => {
    await gates[text]?.opened
    return !text.includes('x')
  })
  return kind('step', { queue: 'steps', ordered: true, input }) as unknown as typeof step
}

test('a call has the jobs of a run in their order, up to its size, and the rest follows', async (t) => {
  const { db, calls, seen, untilEmpty } = await heldRuns(t, [...RUN, 'a5', 'b1'], () => {}, { size: 4 })
  await untilEmpty()
  assert.deepEqual(
    calls.flat().filter((input) => input.startsWith('a')),
    [...RUN, 'a5'],
  )
  assert.deepEqual(calls[0], RUN)
  assert.equal(seen.completed.length, 6)
  await nothingLeft(db)
})

test('a job in the middle fails: those before it are completed, those behind it go back unspent and are next', async (t) => {
  let isFirst = true
  const handle = (jobs: Call) => {
    for (const job of jobs) isFirst && job.input === 'a2' ? job.fail(new Error('not now')) : job.succeed()
    isFirst = false
  }
  const { db, calls, claim, stored, untilEmpty } = await heldRuns(t, RUN, handle, { size: 3 })
  await untilEmpty()
  await until('the claim is closed', async () => (await count(db, 'from leasehold.claim')) === 0)
  assert.deepEqual(await stored(), ['a1 completed 1', 'a2 pending 1', 'a3 pending 0', 'a4 pending 0'])
  assert.deepEqual(await broken(db), [])
  await db.clock.advance('1 s')
  await claim()
  await untilEmpty()
  assert.deepEqual(calls, [RUN.slice(0, 3), RUN.slice(1)])
  assert.deepEqual(await stored(), ['a1 completed 1', 'a2 completed 2', 'a3 completed 1', 'a4 completed 1'])
})

test('a job that succeeds before the one ahead of it is recorded after it', async (t) => {
  const call = heldCall()
  const { slots, seen, stored, untilEmpty } = await heldRuns(t, RUN, call.run)
  await call.began
  const [a1, a2, a3, a4] = call.jobs()
  for (const job of [a4, a3, a2]) job!.succeed()
  await manyTurns()
  assert.equal(slots.running, 4)
  assert.deepEqual(
    await stored(),
    RUN.map((input) => `${input} processing 1`),
  )
  a1!.succeed()
  await untilEmpty()
  assert.deepEqual(seen.completed, RUN)
  call.goOn.open()
})

test('a job that succeeds before the one ahead of it fails is not recorded', async (t) => {
  const call = heldCall()
  const { stored, untilEmpty } = await heldRuns(t, RUN, call.run)
  await call.began
  const [a1, a2, a3, a4] = call.jobs()
  a3!.succeed()
  a4!.succeed()
  await manyTurns()
  a1!.succeed()
  a2!.fail(new Error('not now'))
  await untilEmpty()
  assert.deepEqual(await stored(), ['a1 completed 1', 'a2 pending 1', 'a3 pending 0', 'a4 pending 0'])
  call.goOn.open()
})

test('a job that fails before the one ahead of it has ended fails after it, and those behind it go back at once', async (t) => {
  const call = heldCall()
  const { slots, stored, untilEmpty } = await heldRuns(t, RUN, call.run)
  await call.began
  const [a1, a2, a3, a4] = call.jobs()
  a3!.fail(new Error('not now'))
  await manyTurns()
  assert.deepEqual(
    slots.jobs('behind').map(({ claimed }) => claimed.jobId),
    [a4!.id],
  )
  a4!.succeed()
  await manyTurns()
  assert.deepEqual(
    await stored(),
    RUN.map((input) => `${input} processing 1`),
  )
  a1!.succeed()
  a2!.succeed()
  await untilEmpty()
  assert.deepEqual(await stored(), ['a1 completed 1', 'a2 completed 1', 'a3 pending 1', 'a4 pending 0'])
  call.goOn.open()
})

test('a timeout aborts the jobs of a call that have not ended, and no other; those behind the first go back unspent', async (t) => {
  const clock = movableTimers(t)
  const call = heldCall()
  const { seen, stored, untilEmpty } = await heldRuns(t, [...RUN, 'b1', 'b2'], call.run)
  await call.began
  const job = (input: string) => call.jobs().find((each) => each.input === input)!
  job('a2').succeed() // It is kept.
  job('b1').fail(new Error('not now')) // And b2 falls back.
  await manyTurns()
  clock.pass(10_001)
  assert.deepEqual(seen.aborted, ['a1', 'a3', 'a4'])
  clock.pass(5_001)
  await untilEmpty()
  assert.deepEqual(seen.aborted, ['a1', 'a3', 'a4'])
  const spent = ['a1 pending 1', 'a2 pending 0', 'a3 pending 0', 'a4 pending 0', 'b1 pending 1', 'b2 pending 0']
  assert.deepEqual(await stored(), spent)
  call.goOn.open()
})

test('a call that goes on after its jobs have failed or fallen back keeps its slot', async (t) => {
  const call = heldCall()
  const { db, calls, enqueue, claim, slots, untilEmpty } = await heldRuns(t, RUN, call.run)
  await call.began
  call.jobs()[0]!.fail(new Error('not now'))
  await untilEmpty()
  await enqueue('b1')
  await db.clock.advance('1 s')
  await claim()
  await manyTurns()
  assert.deepEqual([calls.length, slots.waiting], [1, 2])
  call.goOn.open()
  await untilEmpty()
  assert.deepEqual(calls.slice(1).flat().sort(), [...RUN, 'b1'])
})

test('a call that has returned frees its slot when its first job fails and the others fall back', async (t) => {
  let isFirst = true
  const { db, calls, claim, untilEmpty } = await heldRuns(t, RUN, () => {
    if (!isFirst) return
    isFirst = false
    throw new Error('not now')
  })
  await untilEmpty()
  await db.clock.advance('1 s')
  await claim()
  await untilEmpty()
  assert.deepEqual(calls, [RUN, RUN])
})

test('a run whose first input is refused is not called, and its slot is free', async (t) => {
  const of = gatedKind({})
  const { calls, enqueue, claim, stored, untilEmpty } = await heldRuns(t, ['ax', 'a2', 'a3'], () => {}, { of })
  await untilEmpty()
  assert.deepEqual(calls, [])
  await enqueue('b1')
  await claim()
  await untilEmpty()
  assert.deepEqual(calls.flat().sort(), ['a2', 'a3', 'b1'])
  assert.deepEqual(await stored(), ['a2 completed 1', 'a3 completed 1', 'ax dead_letter 1', 'b1 completed 1'])
})

test('a call begins when the inputs of all its jobs are read, though some of a run are refused or fall back meanwhile', async (t) => {
  const inputs = ['a1', 'ax2', 'a3', 'bx1', 'bx2', 'c1']
  const gates = Object.fromEntries(inputs.map((input) => [input, gate()]))
  const { calls, stored, untilEmpty } = await heldRuns(t, inputs, () => {}, { of: gatedKind(gates) })
  await manyTurns()
  // ax2 is kept, and a3 falls back before it is read. bx2 is kept, and falls back when bx1 is refused.
  for (const input of ['ax2', 'a3', 'bx2', 'bx1', 'a1']) {
    gates[input]!.open()
    await manyTurns()
    assert.deepEqual(calls, [])
  }
  gates.c1!.open()
  await untilEmpty()
  assert.deepEqual(calls, [['a1', 'c1']])
  const rows = ['a1 completed 1', 'a3 pending 0', 'ax2 dead_letter 1', 'bx1 dead_letter 1', 'bx2 pending 0']
  assert.deepEqual(await stored(), [...rows, 'c1 completed 1'])
})

test('a job that completes in its own transaction: those behind it are released, and not started while the call goes on', async (t) => {
  const call = heldCall()
  const { db, calls, seen, claim, stored, untilEmpty } = await heldRuns(t, RUN, call.run, { concurrency: 2 })
  await call.began
  const [a1, a2] = call.jobs()
  await withTransaction(db.pool, (tx) => a1!.complete(tx))
  a1!.succeed()
  a2!.succeed()
  await untilEmpty()
  assert.deepEqual(await stored(), ['a1 completed 1', 'a2 pending 0', 'a3 pending 0', 'a4 pending 0'])
  assert.deepEqual([calls.length, seen.completed], [1, ['a1']])
  call.goOn.open()
  await claim()
  await untilEmpty()
  assert.deepEqual(calls.slice(1), [RUN.slice(1)])
})

test('a job that is cancelled in a call is aborted alone, and ends its run there', async (t) => {
  const call = heldCall()
  const { lh, runner, seen, idOf, stored, untilEmpty } = await heldRuns(t, RUN, call.run)
  await call.began
  const [a1, a2, a3, a4] = call.jobs()
  assert.equal(await lh.cancel(idOf('a2')), 'requested')
  runner.lookForCancel()
  await until('it is aborted', () => seen.aborted.length > 0)
  assert.deepEqual(seen.aborted, ['a2'])
  for (const job of [a1, a3, a4]) job!.succeed()
  a2!.fail(a2!.signal.reason)
  await untilEmpty()
  assert.deepEqual(await stored(), ['a1 completed 1', 'a2 cancelled 1', 'a3 pending 0', 'a4 pending 0'])
  call.goOn.open()
})

test('a pause releases what is behind a call, and those in the call are completed', async (t) => {
  const call = heldCall()
  const { db, runner, stored, untilEmpty } = await heldRuns(t, RUN, call.run, { size: 2 })
  await call.began
  runner.pause({ queues: new Set(['steps']), kinds: new Set() })
  await until('the rest is released', async () => (await stored()).includes('a3 pending 0'))
  assert.deepEqual(await stored(), ['a1 processing 1', 'a2 processing 1', 'a3 pending 0', 'a4 pending 0'])
  call.goOn.open()
  await untilEmpty()
  assert.deepEqual(await stored(), ['a1 completed 1', 'a2 completed 1', 'a3 pending 0', 'a4 pending 0'])
  assert.deepEqual(await broken(db), [])
})

test('a worker that stops releases the jobs of a call, kept ones included, and no attempt is spent', async (t) => {
  const call = heldCall()
  const { db, runner, seen, stored, untilEmpty } = await heldRuns(t, RUN, call.run)
  await call.began
  call.jobs()[2]!.succeed()
  await manyTurns()
  runner.close()
  runner.releaseAll()
  await untilEmpty()
  assert.deepEqual(seen.released, ['a1'])
  assert.deepEqual(
    await stored(),
    RUN.map((input) => `${input} pending 0`),
  )
  assert.deepEqual(await broken(db), [])
  call.goOn.open()
})

test('when the lease of a run is lost, its call is aborted, and another worker has what was not recorded, in order', async (t) => {
  const clock = movableTimers(t)
  const call = heldCall()
  const { db, lane, seen, idOf, stored, untilEmpty } = await heldRuns(t, RUN, call.run)
  await call.began
  const jobs = call.jobs()
  jobs[0]!.succeed()
  await until('the first is recorded', () => seen.completed.length === 1)
  // The sweep of another process finds the claim before this one notices.
  await db.clock.advance(`${LEASE_MS + 1} ms`)
  await sweep(lane)
  // It was alone in its worker, as far as the sweep knows, so it is blamed.
  assert.deepEqual(await stored(), ['a1 completed 1', 'a2 pending 1', 'a3 pending 0', 'a4 pending 0'])
  const request = { claimId: newClaimId(), worker: newWorker(), kinds: ['step'], limit: 10, leaseMs: LEASE_MS }
  const suspects = await claimSuspects(lane, request, ['steps'])
  assert.deepEqual(
    suspects.map(({ jobId, run }) => [jobId, run]),
    [[idOf('a2'), undefined]],
  )
  clock.pass(LEASE_MS)
  assert.equal(call.signal().aborted, true)
  assert.deepEqual(seen.aborted, RUN.slice(1))
  for (const job of jobs.slice(1)) job.succeed()
  await untilEmpty()
  assert.deepEqual([seen.completed, seen.refused], [['a1'], RUN.slice(1)])
  assert.deepEqual(await stored(), ['a1 completed 1', 'a2 processing 2', 'a3 pending 0', 'a4 pending 0'])
  call.goOn.open()
})

test('a job on its last attempt has none behind it in its call: a crash of those would bury it', async (t) => {
  const of = kind<string>('step', { queue: 'steps', ordered: true })
  const { calls, db, claim, untilEmpty } = await heldRuns(t, [], () => {}, { of })
  const once = { queue: 'steps', partitionKey: 'a', maxAttempts: 1 }
  await enqueue(new Lane(db.pool), [
    { ...once, kind: 'step', input: 'a1', maxAttempts: 2 },
    { ...once, kind: 'step', input: 'a2' },
    { ...once, kind: 'step', input: 'a3' },
  ])
  await claim()
  await untilEmpty()
  assert.deepEqual(calls, [['a1', 'a2'], ['a3']])
})
