// Runs of workflows: what they record, how they resume, what they wait for.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { z } from 'zod'
import { Fatal, handle, IdempotencyConflictError, kind, withTransaction } from '../../src/index.ts'
import { handleRuns, RunFinishedError, RunNotFoundError, signal, start, workflow } from '../../src/workflow/index.ts'
import { until } from '../support/until.ts'
import { scene } from '../support/worker.ts'

const FAST = { retry: { backoff: { first: 1, max: 1 } }, backoff: { first: 1, max: 1 } } as const

test('a run executes its steps in order, and its result is that of its code', async (t) => {
  const { lh } = await scene(t)
  const done: string[] = []
  const checkout = workflow('checkout', { input: z.object({ order: z.number() }) }, async (run, { order }) => {
    const held = await run.step('reserve', () => {
      done.push('reserve')
      return { held: order, at: new Date(0) }
    })
    const paid = await run.step(['charge', order], ({ attempt, effectKey }) => {
      done.push(`charge ${attempt} ${effectKey.length > 10}`)
      return undefined
    })
    return { held, paid: paid ?? 'nothing' }
  })
  const { runId, jobId, outcome } = await start(lh, checkout, { order: 9182 }, { runId: 'checkout:9182' })
  assert.deepEqual([runId, outcome], ['checkout:9182', 'created'])
  assert.equal((await lh.drain([handleRuns(checkout)])).completed, 1)
  const job = await lh.get(jobId)
  assert.deepEqual(job!.result, { held: { held: 9182, at: '1970-01-01T00:00:00.000Z' }, paid: 'nothing' })
  assert.deepEqual(done, ['reserve', 'charge 1 true'])
})

test('a second start of the same id returns the first run, and one with another input is refused', async (t) => {
  const { lh, db } = await scene(t)
  const once = workflow<number, number>('once', {}, async (_run, n) => n)
  const first = await start(lh, once, 1, { runId: 'a' })
  assert.deepEqual(await start(lh, once, 1, { runId: 'a' }), { ...first, outcome: 'existing' })
  await assert.rejects(start(lh, once, 2, { runId: 'a' }), IdempotencyConflictError)
  const rolledBack = withTransaction(db.pool, async (tx) => {
    await start(lh, once, 3, { runId: 'b', tx })
    throw new Error('no')
  })
  await assert.rejects(rolledBack, /no/)
  await assert.rejects(signal(lh, once, 'b', 'x'), RunNotFoundError)
})

test('a run that fails between two steps resumes after the one that is on record', async (t) => {
  const { lh } = await scene(t)
  const done: string[] = []
  let failures = 2
  const flow = workflow<null, string>('flow', FAST, async (run) => {
    const one = await run.step('one', () => {
      done.push('one')
      return 1
    })
    if (failures-- > 0) throw new Error('a bug')
    await run.step('two', () => void done.push('two'))
    return `done ${one}`
  })
  const { jobId } = await start(lh, flow, null)
  await lh.drain([handleRuns(flow)])
  await until('it has ended', async () => {
    await lh.drain([handleRuns(flow)])
    return (await lh.get(jobId))!.status === 'completed'
  })
  assert.deepEqual(done, ['one', 'two'])
  assert.equal((await lh.get(jobId))!.result, 'done 1')
})

test('a step is retried by its own policy, and a failure for good is thrown into the code', async (t) => {
  const { lh, worker } = await scene(t)
  let tries = 0
  const flow = workflow<null, string>('flow', FAST, async (run) => {
    const third = await run.step('third time', ({ attempt }) => {
      if (attempt < 3) throw new Error('not yet')
      return attempt
    })
    try {
      await run.step('never', { retry: { attempts: 2, backoff: { first: 1, max: 1 } } }, () => {
        tries++
        throw new Error('refused')
      })
    } catch (error) {
      return `${third} ${(error as Error).message} ${(error as { code: string }).code}`
    }
    return ''
  })
  const { jobId } = await start(lh, flow, null)
  worker([handleRuns(flow)])
  const { result } = await lh.waitFor(jobId)
  assert.equal(result, '3 Step "never" has failed: Error: refused STEP_FAILED')
  assert.equal(tries, 2)
})

test('steps that had succeeded are compensated in reverse order when the run fails for good, each once', async (t) => {
  const { lh, worker } = await scene(t)
  const undone: string[] = []
  const flow = workflow<null, void>('flow', FAST, async (run) => {
    const undo = (result: string) => void undone.push(result)
    await run.step('a', { compensate: undo }, () => 'a')
    await run.step('b', { compensate: undo }, () => 'b')
    await run.step('c', { compensate: undo }, () => {
      throw new Fatal('no')
    })
  })
  const { jobId } = await start(lh, flow, null)
  worker([handleRuns(flow)])
  const ended = await lh.waitFor(jobId)
  assert.equal(ended.status, 'dead_letter')
  assert.deepEqual(undone, ['b', 'a'])
})

test('a sleep ends by the clock of the database, and a signal that comes early or late is received once', async (t) => {
  const { lh, db } = await scene(t)
  const done: unknown[] = []
  const flow = workflow<null, unknown>('flow', {}, async (run) => {
    await run.sleep('7d')
    done.push('slept')
    const early = await run.signal('early')
    const late = await run.signal('late', z.object({ at: z.number() }))
    return { early, late }
  })
  const { jobId } = await start(lh, flow, null, { runId: 'r' })
  const drain = () => lh.drain([handleRuns(flow)])
  await drain()
  assert.equal(await signal(lh, flow, 'r', 'early', 'bird', { idempotencyKey: 'k' }), 'sent')
  assert.equal(await signal(lh, flow, 'r', 'early', 'bird', { idempotencyKey: 'k' }), 'duplicate')
  await drain()
  assert.deepEqual(done, [])
  await db.clock.advance('7 d')
  await drain()
  assert.deepEqual(done, ['slept'])
  assert.deepEqual([(await lh.get(jobId))!.status, (await lh.get(jobId))!.label], ['pending', 'waiting'])
  await signal(lh, flow, 'r', 'late', { at: 3 })
  await drain()
  await until('it has ended', async () => {
    await drain()
    return (await lh.get(jobId))!.status === 'completed'
  })
  assert.deepEqual((await lh.get(jobId))!.result, { early: 'bird', late: { at: 3 } })
  await assert.rejects(signal(lh, flow, 'r', 'late', { at: 4 }), RunFinishedError)
})

test('a worker that listens wakes a run when its signal is committed', async (t) => {
  const { lh, worker } = await scene(t)
  const flow = workflow<null, unknown>('flow', {}, async (run) => run.signal('go'))
  const { jobId } = await start(lh, flow, null, { runId: 'r' })
  worker([handleRuns(flow)])
  await until('it waits', async () => (await lh.get(jobId))!.label === 'waiting')
  await signal(lh, flow, 'r', 'go', 'now')
  assert.equal((await lh.waitFor(jobId)).result, 'now')
})

test('the first of several waits wins, and stays the winner', async (t) => {
  const { lh, db } = await scene(t)
  let replays = 0
  const flow = workflow<null, unknown>('flow', {}, async (run) => {
    replays++
    const first = await run.any({ shipped: run.signal('shipped'), late: run.sleep('7d') })
    await run.sleep('1d')
    return first
  })
  const { jobId } = await start(lh, flow, null, { runId: 'r' })
  const drain = () => lh.drain([handleRuns(flow)])
  await drain()
  await db.clock.advance('7 d')
  await drain()
  await signal(lh, flow, 'r', 'shipped')
  await drain()
  await db.clock.advance('1 d')
  await drain()
  const job = await lh.get(jobId)
  assert.deepEqual([job!.status, job!.result], ['completed', { name: 'late' }])
  assert.ok(replays >= 3)
})

test('parallel branches join, and each step of them happens once', async (t) => {
  const { lh } = await scene(t)
  const done: string[] = []
  const flow = workflow<null, unknown>('flow', FAST, async (run) => {
    const noted = (what: string) => () => {
      done.push(what)
      return what
    }
    const branch = async (name: string) => {
      const one = await run.step([name, 1], noted(`${name} 1`))
      await run.sleep(1)
      return `${one}, ${await run.step([name, 2], noted(`${name} 2`))}`
    }
    return Promise.all(['a', 'b', 'c'].map(branch))
  })
  const { jobId } = await start(lh, flow, null)
  await until('it has ended', async () => {
    await lh.drain([handleRuns(flow)])
    return (await lh.get(jobId))!.status === 'completed'
  })
  assert.deepEqual((await lh.get(jobId))!.result, ['a 1, a 2', 'b 1, b 2', 'c 1, c 2'])
  assert.deepEqual(done.toSorted(), ['a 1', 'a 2', 'b 1', 'b 2', 'c 1', 'c 2'])
})

test('a run waits for a job and for another run, and gets their results or their failure', async (t) => {
  const { lh, worker } = await scene(t)
  const double = kind<number>('double', { maxAttempts: 1 }).returns<number>()
  const child = workflow<number, number>('child', {}, async (run, n) => run.step('add', () => n + 1))
  const flow = workflow<number, unknown>('flow', {}, async (run, n) => {
    const doubled = await run.job(double, n)
    const added = await run.child(child, doubled)
    const failed = await Promise.resolve(run.job(double, -1, { name: 'negative' })).catch((error) => error.code)
    return { doubled, added, failed }
  })
  const { jobId } = await start(lh, flow, 4)
  worker([
    handleRuns(flow),
    handleRuns(child),
    handle(double, ({ input }) => {
      if (input < 0) throw new Error('negative')
      return 2 * input
    }),
  ])
  const { result } = await lh.waitFor(jobId)
  assert.deepEqual(result, { doubled: 8, added: 9, failed: 'STEP_FAILED' })
})

test('a step in a transaction commits with its record, or not at all', async (t) => {
  const { lh, db } = await scene(t)
  await db.pool.query('create table paid (order_id int)')
  let attempts = 0
  const flow = workflow<number, number>('flow', FAST, async (run, order) => {
    await run.tx('pay', async (tx) => {
      await tx.query('insert into paid values ($1)', [order])
      if (attempts++ === 0) throw new Error('rolled back')
    })
    if (attempts === 2 && attempts++ > 0) throw new Error('a bug after it')
    return order
  })
  const { jobId } = await start(lh, flow, 7)
  await until('it has ended', async () => {
    await lh.drain([handleRuns(flow)])
    return (await lh.get(jobId))!.status === 'completed'
  })
  assert.equal((await db.pool.query('select count(*)::int as n from paid')).rows[0].n, 1)
})

test('a run that is cancelled compensates what it did, also while it waits', async (t) => {
  const { lh, worker } = await scene(t)
  const undone: string[] = []
  const flow = workflow<null, void>('flow', FAST, async (run) => {
    await run.step('a', { compensate: () => void undone.push('a') }, () => 'a')
    await run.signal('never')
  })
  const { jobId } = await start(lh, flow, null)
  worker([handleRuns(flow)])
  await until('it waits', async () => (await lh.get(jobId))!.label === 'waiting')
  assert.equal(await lh.cancel(jobId, { reason: 'customer left' }), 'requested')
  const ended = await lh.waitFor(jobId)
  assert.deepEqual([ended.status, ended.reason, undone], ['cancelled', 'customer left', ['a']])
})
