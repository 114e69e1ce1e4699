// Signals to runs: kept if early, consumed once, and never lost to a run that parks meanwhile.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { connectionOf } from '../../src/db/connection.ts'
import { Lane } from '../../src/db/lane.ts'
import { withTransaction } from '../../src/index.ts'
import { SETTLE } from '../../src/jobs/outcome.sql.ts'
import { wakeSignalled } from '../../src/jobs/signals.ts'
import { handleRuns, RunFinishedError, RunNotFoundError, signal, start, workflow } from '../../src/workflow/index.ts'
import { gate } from '../support/gate.ts'
import { pause } from '../support/interleave.ts'
import { codeOf, count, type Scene, scene } from '../support/worker.ts'

const CENTURY_MS = 3_153_600_000_000
const NO_WORKER = '00000000-0000-0000-0000-000000000000'

const waits = workflow<null, unknown>('waits', {}, async (run) => {
  const first = await run.any({ go: run.signal('go'), late: run.sleep('1h') })
  return first.name === 'go' ? first.value : 'late'
})

/** A run of `waits` that has parked. */
async function parked(t: TestContext): Promise<Scene & { jobId: string; drain(): Promise<unknown> }> {
  const s = await scene(t)
  const { jobId } = await start(s.lh, waits, null, { runId: 'r' })
  const drain = () => s.lh.drain([handleRuns(waits)])
  await drain()
  assert.equal((await s.lh.get(jobId))!.label, 'waiting')
  return { ...s, jobId, drain }
}

/** A run that a process holds and is about to park, with the values of its statement. */
async function aboutToPark(t: TestContext) {
  const s = await scene(t)
  await start(s.lh, waits, null, { runId: 'r' })
  const [job] = await s.lh.claim(waits.kind)
  const values = [
    `{${job!.id}}`,
    `{${job!.claimId}}`,
    ['snooze'],
    `{${CENTURY_MS}}`,
    [null],
    [null],
    NO_WORKER,
    ['["go"]'],
  ]
  const send = () => signal(s.lh, waits, 'r', 'go', 1)
  const wake = () => wakeSignalled(connectionOf('test', s.lh).lane)
  const isAvailable = async () =>
    (await count(s.db, 'from leasehold.job where claim_id is null and available_at <= leasehold.clock()')) === 1
  return { ...s, values, send, wake, isAvailable, park: () => new Lane(s.db.pool).run(SETTLE, values) }
}

test('a signal that is committed before a run parks makes it available at once', async (t) => {
  const { send, park, isAvailable } = await aboutToPark(t)
  await send()
  await park()
  assert.ok(await isAvailable())
})

test('a signal that commits after the snapshot of the parking statement wakes the run, though a look came between', async (t) => {
  const { db, values, send, wake, isAvailable } = await aboutToPark(t)
  const parking = await pause(db, SETTLE, values)
  await send()
  await wake() // Finds a run that is held.
  await parking.resume()
  assert.equal(await isAvailable(), false)
  await wake()
  assert.ok(await isAvailable())
})

test('a signal that commits while the run parks, its row locked, wakes the run', async (t) => {
  const { db, values, send, wake, isAvailable } = await aboutToPark(t)
  const holder = await db.connect()
  await holder.query('begin')
  await new Lane(holder).run(SETTLE, values)
  await send()
  await wake() // Passes over the locked row.
  await holder.query('commit')
  assert.equal(await isAvailable(), false)
  await wake()
  assert.ok(await isAvailable())
})

test('a signal that commits after the run has parked wakes it', async (t) => {
  const { send, wake, park, isAvailable } = await aboutToPark(t)
  await park()
  assert.equal(await isAvailable(), false)
  await send()
  await wake()
  assert.ok(await isAvailable())
})

test('a signal of another name does not wake a run, and is kept', async (t) => {
  const { db, lh, wake, park, isAvailable } = await aboutToPark(t)
  await park()
  await signal(lh, waits, 'r', 'other')
  await wake()
  assert.equal(await isAvailable(), false)
  assert.equal(await count(db, 'from leasehold.signal where noticed and not consumed'), 1)
})

test('there is no signal before the start, and none after the end', async (t) => {
  const { lh, jobId, drain } = await parked(t)
  await assert.rejects(signal(lh, waits, 'unknown', 'go'), RunNotFoundError)
  await signal(lh, waits, 'r', 'go', 'sent')
  await drain()
  assert.equal((await lh.get(jobId))!.result, 'sent')
  await assert.rejects(signal(lh, waits, 'r', 'go'), RunFinishedError)
  assert.equal(await codeOf(() => signal(lh, waits, 'r', 'job 17', {})), 'INVALID_OPTION')
})

test('of a signal and a timeout the first wins, and the other one changes nothing', async (t) => {
  const late = await parked(t)
  await late.db.clock.advance('1 h')
  await late.drain()
  assert.equal((await late.lh.get(late.jobId))!.result, 'late')
  await assert.rejects(signal(late.lh, waits, 'r', 'go', 'too late'), RunFinishedError)
})

test('a signal that was sent before the timeout wins, also if the run looks after it', async (t) => {
  const { lh, db, jobId, drain } = await parked(t)
  await signal(lh, waits, 'r', 'go', 'in time')
  await db.clock.advance('1 h')
  await drain()
  assert.equal((await lh.get(jobId))!.result, 'in time')
})

test('a signal is consumed once: sent twice it is received twice, with one key once', async (t) => {
  const { lh } = await scene(t)
  const flow = workflow<null, unknown>('flow', {}, async (run) => {
    const got: unknown[] = [await run.signal('go'), await run.signal('go'), await run.signal('go')]
    return got
  })
  const { jobId } = await start(lh, flow, null, { runId: 'r' })
  const drain = () => lh.drain([handleRuns(flow)])
  for (const n of [1, 1]) await signal(lh, flow, 'r', 'go', n)
  for (const n of [2, 3]) await signal(lh, flow, 'r', 'go', n, { idempotencyKey: 'k' })
  await drain()
  assert.deepEqual((await lh.get(jobId))!.result, [1, 1, 2])
})

test('a signal in a transaction that is rolled back was never sent', async (t) => {
  const { lh, db, jobId, drain } = await parked(t)
  const rolledBack = withTransaction(db.pool, async (tx) => {
    await signal(lh, waits, 'r', 'go', 1, { tx })
    throw new Error('no')
  })
  await assert.rejects(rolledBack, /no/)
  await drain()
  assert.equal((await lh.get(jobId))!.status, 'pending')
})

test('a hundred senders in open transactions do not wait for each other, nor for the run', async (t) => {
  const { lh, db, jobId, drain } = await parked(t)
  const senders = await Promise.all(Array.from({ length: 100 }, () => db.connect()))
  for (const [n, tx] of senders.entries()) {
    await tx.query('begin')
    // One after the other, all of them open: one that waited would never return.
    await tx.query(`set local lock_timeout = '5s'`)
    assert.equal(await signal(lh, waits, 'r', 'go', n, { tx }), 'sent')
  }
  await drain()
  assert.equal((await lh.get(jobId))!.status, 'pending')
  for (const tx of senders) await tx.query('commit')
  await drain()
  assert.equal((await lh.get(jobId))!.result, 0)
})

test('a cancel that comes while the run parks is not forgotten', async (t) => {
  const { lh, db } = await scene(t)
  const undone: string[] = []
  const flow = workflow<null, void>('flow', {}, async (run) => {
    await run.step('a', { compensate: () => void undone.push('a') }, () => 'a')
    await run.signal('go')
  })
  const { jobId } = await start(lh, flow, null, { runId: 'r' })
  const drain = () => lh.drain([handleRuns(flow)])
  await drain()
  // A process has it again, and parks while the cancel is requested.
  await db.pool.query('update leasehold.job set available_at = leasehold.clock()')
  const [job] = await lh.claim(flow.kind)
  assert.equal(await lh.cancel(jobId, { reason: 'no more' }), 'requested')
  const values = [
    `{${job!.id}}`,
    `{${job!.claimId}}`,
    ['snooze'],
    `{${CENTURY_MS}}`,
    [null],
    [null],
    NO_WORKER,
    ['["go"]'],
  ]
  await new Lane(db.pool).run(SETTLE, values)
  await drain()
  const { status, reason } = (await lh.get(jobId))!
  assert.deepEqual([status, reason, undone], ['cancelled', 'no more', ['a']])
})

test('a signal is received once, also if the worker looks for it twice in one statement', async (t) => {
  const { lh, db, worker } = await scene(t)
  const [holds, goes, received] = [gate(), gate(), gate()]
  const flow = workflow<null, unknown>('flow', {}, async (run) => {
    const all: unknown[] = []
    const receives = async () => {
      for (let turn = 0; turn < 2; turn++) {
        all.push(await run.signal('go'))
        received.open()
      }
    }
    const holding = run.step('hold', () => {
      holds.open()
      return goes.opened
    })
    await Promise.all([receives(), holding])
    return all
  })
  const handler = handleRuns(flow)
  worker([handler])
  const { jobId } = await start(lh, flow, null, { runId: 'r' })
  await holds.opened
  // Without a notification: the worker looks when the test asks it to.
  await db.pool.query(`insert into leasehold.signal (job_id, salt, sent_at, name, payload)
    select id, salt, leasehold.clock(), 'go', '1' from leasehold.job`)
  handler.onSignal!()
  handler.onSignal!()
  await received.opened
  await signal(lh, flow, 'r', 'go', 2)
  goes.open()
  assert.deepEqual((await lh.waitFor(jobId)).result, [1, 2])
})

test('a signal that came first wins over a timeout while another branch runs', { timeout: 20_000 }, async (t) => {
  const { lh } = await scene(t)
  const other = gate()
  const flow = workflow<null, unknown>('flow', {}, async (run) => {
    const asks = async () => {
      await run.step('first', () => signal(lh, flow, 'r', 'go', 7))
      const first = await run.any({ go: run.signal('go'), late: run.sleep('1s') })
      other.open()
      return first
    }
    const [first] = await Promise.all([asks(), run.step('other', () => other.opened)])
    return first
  })
  const { jobId } = await start(lh, flow, null, { runId: 'r' })
  await lh.drain([handleRuns(flow)])
  assert.deepEqual((await lh.get(jobId))!.result, { name: 'go', value: 7 })
})

test('a signal that came before a sleep was over wins, also if the sleep is over when the run waits for both', async (t) => {
  const { lh } = await scene(t)
  const flow = workflow<null, unknown>('flow', {}, async (run) => {
    const late = run.sleep(1)
    await run.any({ ready: run.signal('ready'), late })
    await run.step('send', () => signal(lh, flow, 'r', 'go', 7))
    return run.any({ go: run.signal('go'), late })
  })
  const { jobId } = await start(lh, flow, null, { runId: 'r' })
  await signal(lh, flow, 'r', 'ready')
  await lh.drain([handleRuns(flow)])
  assert.deepEqual((await lh.get(jobId))!.result, { name: 'go', value: 7 })
})
