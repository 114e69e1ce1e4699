// A run that resumes goes the way it went before, whatever its code awaits.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { handle, kind, RetryAfter } from '../../src/index.ts'
import { type Code, handleRuns, signal, start, workflow } from '../../src/workflow/index.ts'
import { gate } from '../support/gate.ts'
import { until } from '../support/until.ts'
import { count, scene } from '../support/worker.ts'

const FAST = { retry: { backoff: { first: 1, max: 1 } }, backoff: { first: 1, max: 1 } } as const

/** Starts a run, and lets an hour pass whenever nothing is left to do. */
async function played(t: TestContext, code: Code<null, unknown>, rounds = 6) {
  const { lh, db } = await scene(t)
  const flow = workflow<null, unknown>('flow', { ...FAST, maxAttempts: 1 }, code)
  const { jobId } = await start(lh, flow, null, { runId: 'r' })
  for (let round = 0; round < rounds; round++) {
    await lh.drain([handleRuns(flow)])
    await db.clock.advance('1 h')
  }
  const { status, result, lastError } = (await lh.get(jobId))!
  return { status, result, lastError: (lastError as { message?: string } | null)?.message ?? null }
}

test('a result has its keys in the same order when the run resumes', async (t) => {
  const ended = await played(t, async (run) => {
    const prices = await run.step('prices', () => ({ shirt: 20, hat: 10 }))
    for (const item of Object.keys(prices)) await run.step(['order', item], () => {})
    await run.sleep('1h')
    return Object.keys(prices)
  })
  assert.deepEqual(ended, { status: 'completed', result: ['shirt', 'hat'], lastError: null })
})

test('a note in front of recorded steps does not stop a run that resumes', async (t) => {
  const ended = await played(t, async (run) => {
    await run.note('begun')
    const one = await run.step('one', () => 1)
    await run.note('one is done')
    await run.sleep('1h')
    return one
  })
  assert.deepEqual(ended, { status: 'completed', result: 1, lastError: null })
})

test('a patch in front of a sleep that is under way leaves the run on its old path', async (t) => {
  const { lh, db } = await scene(t)
  const flow = (isPatched: boolean) =>
    workflow<null, string>('flow', { ...FAST, maxAttempts: 1 }, async (run) => {
      const isNew = isPatched && run.patched('check')
      if (isNew) await run.step('check', () => {})
      await run.sleep('1h')
      return isNew ? 'new' : 'old'
    })
  const { jobId } = await start(lh, flow(false), null)
  await lh.drain([handleRuns(flow(false))])
  await db.clock.advance('1 h')
  await lh.drain([handleRuns(flow(true))])
  const { status, result } = (await lh.get(jobId))!
  assert.deepEqual([status, result], ['completed', 'old'])
})

test('which of two branches came first stays so when the run resumes', async (t) => {
  const ended = await played(t, async (run) => {
    const order: string[] = []
    const sleeps = run.sleep('1h').then(() => order.push('sleep'))
    const asks = (async () => {
      await run.sleep('2h')
      await run.step('b', () => {})
      order.push('step')
    })()
    await Promise.race([sleeps, asks])
    await run.step(['first', order[0]!], () => {})
    await Promise.all([sleeps, asks])
    await run.sleep('1h')
    return order
  })
  assert.deepEqual(ended, { status: 'completed', result: ['sleep', 'step'], lastError: null })
})

test('a step that finished before a sleep had ended comes before it when the run resumes', async (t) => {
  const ended = await played(t, async (run) => {
    const steps = async () => {
      for (let i = 0; i < 5; i++) await run.step('fast', () => {})
      return 'fast'
    }
    const winner = Promise.race([steps(), run.sleep('1h').then(() => 'sleep')])
    await run.step(['winner', await winner], () => {})
    await run.sleep('2h')
    return winner
  })
  assert.deepEqual(ended, { status: 'completed', result: 'fast', lastError: null })
})

test('a job that has ended does not overtake what is on record', async (t) => {
  const { lh, db } = await scene(t)
  const quick = kind<null>('quick', {})
  const flow = workflow<null, unknown>('flow', { ...FAST, maxAttempts: 1 }, async (run) => {
    const steps = async () => {
      for (let i = 0; i < 1_000; i++) await run.step('step', () => {})
      return 'step'
    }
    const winner = Promise.race([steps(), run.job(quick, null).then(() => 'job')])
    await run.step(['winner', await winner], () => {})
    await run.sleep('1h')
    return winner
  })
  const { jobId } = await start(lh, flow, null)
  await lh.drain([handleRuns(flow)])
  await lh.drain([handle(quick, () => null)])
  await db.clock.advance('1 h')
  await lh.drain([handleRuns(flow)])
  const { status, result, lastError } = (await lh.get(jobId))!
  assert.deepEqual([status, result, lastError], ['completed', 'step', null])
})

test('two waits for one name get two signals, not the same one', async (t) => {
  const { lh, db } = await scene(t)
  const flow = workflow<null, unknown>('flow', FAST, async (run) =>
    Promise.all([run.signal('go'), run.signal('go'), run.signal('other')]),
  )
  const { jobId } = await start(lh, flow, null, { runId: 'r' })
  const drain = () => lh.drain([handleRuns(flow)])
  await drain()
  await signal(lh, flow, 'r', 'go', 1)
  await signal(lh, flow, 'r', 'other', 'other')
  await drain()
  await drain()
  assert.equal((await lh.get(jobId))!.status, 'pending')
  await signal(lh, flow, 'r', 'go', 2)
  await until('it has ended', async () => {
    await drain()
    return (await lh.get(jobId))!.status === 'completed'
  })
  assert.deepEqual((await lh.get(jobId))!.result, [1, 2, 'other'])
  const { rows } = await db.pool.query('select count(distinct signal_id)::int as n from leasehold.step')
  assert.equal(rows[0].n, 3)
})

test('branches that sleep each wake at their own time, also if their records come in another order', async (t) => {
  const { lh, db } = await scene(t)
  const woke: string[] = []
  const waitUntilCommitting = async () => {
    await until('the transaction is committing', async () => {
      const waiting = "from pg_stat_activity where wait_event = 'advisory' and datname = current_database()"
      return (await count(db, waiting)) > 0
    })
  }
  const flow = workflow<null, unknown>('flow', FAST, async (run) => {
    const slow = (async () => {
      // Its commit takes longer than the record of the other branch.
      await run.tx('slow', (tx) => tx.query('select 1').then(() => null))
      await run.sleep('1h')
      woke.push('slow')
    })()
    const fast = (async () => {
      await run.step('fast', () => waitUntilCommitting())
      await run.sleep('50h')
      woke.push('fast')
    })()
    await Promise.all([slow, fast])
  })
  const holder = await db.connect()
  await db.pool.query(`create table commits (n int);
    create function slow_commit() returns trigger language plpgsql as $$ begin
      perform pg_advisory_xact_lock(815); return null; end $$;
    create constraint trigger slow after insert on leasehold.step deferrable initially deferred for each row
      when (new.name = 'slow') execute function slow_commit()`)
  await holder.query('select pg_advisory_lock(815)')
  const { jobId } = await start(lh, flow, null)
  const drained = lh.drain([handleRuns(flow)])
  await until('the fast branch is on record', async () => {
    const { rows } = await db.pool.query(`select from leasehold.step where name = 'fast'`)
    return rows.length > 0
  })
  await holder.query('select pg_advisory_unlock(815)')
  await drained
  await db.clock.advance('2 h')
  await lh.drain([handleRuns(flow)])
  assert.deepEqual(woke, ['slow'])
  await db.clock.advance('50 h')
  await lh.drain([handleRuns(flow)])
  assert.equal((await lh.get(jobId))!.status, 'completed')
})

test('three branches go on in the order on record when the run resumes, and are undone in reverse', async (t) => {
  const undone: string[] = []
  const [second, first] = [gate(), gate()]
  const orders: string[][] = []
  const ended = await played(t, async (run) => {
    const order: string[] = []
    orders.push(order)
    const branch = async (name: string, waitsFor: Promise<void> | undefined, opens?: () => void) => {
      await run.step(name, { compensate: () => undone.push(name) }, () => waitsFor)
      order.push(name)
      opens?.()
    }
    // b is recorded before a, and both before c.
    await Promise.all([
      branch('a', second.opened, first.open),
      branch('b', undefined, second.open),
      branch('c', first.opened),
    ])
    await run.sleep('1h')
    return run.compensate('enough')
  })
  assert.equal(ended.status, 'cancelled')
  const way = ['b', 'a', 'c']
  assert.deepEqual(orders, [way, way])
  assert.deepEqual(undone, way.toReversed())
})

test('what is not on record begins when no branch of many can advance on what is', async (t) => {
  const branches = 10
  const seen: number[] = []
  const allDone = gate()
  const ended = await played(t, async (run) => {
    let done = 0
    const late = run.step('late', async ({ attempt }) => {
      if (attempt > 1) return seen.push(done)
      await allDone.opened
      throw new RetryAfter('1h')
    })
    const all = Array.from({ length: branches }, async () => {
      await run.sleep(1)
      if (++done === branches) allDone.open()
    })
    await Promise.all([late, ...all])
    return done
  })
  assert.deepEqual(ended, { status: 'completed', result: branches, lastError: null })
  assert.deepEqual(seen, [branches])
})

test('a note in front of recorded steps does not keep a cancelled run from undoing them', async (t) => {
  const { lh } = await scene(t)
  const undone: string[] = []
  const flow = workflow<null, unknown>('flow', FAST, async (run) => {
    await run.note('begun')
    await run.step('a', { compensate: () => undone.push('a') }, () => {})
    await run.note('a is done')
    await run.signal('never')
  })
  const { jobId } = await start(lh, flow, null)
  await lh.drain([handleRuns(flow)])
  assert.equal(await lh.cancel(jobId), 'requested')
  await lh.drain([handleRuns(flow)])
  assert.deepEqual([(await lh.get(jobId))!.status, undone], ['cancelled', ['a']])
})
