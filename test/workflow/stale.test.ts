// Two processes have one run: the lease of the first is over, and it does not know. It writes nothing.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { kind } from '../../src/index.ts'
import { type Code, handleRuns, signal, start, workflow } from '../../src/workflow/index.ts'
import { gate } from '../support/gate.ts'
import { until } from '../support/until.ts'
import { count, inTime, nothingHeld, type Scene, scene } from '../support/worker.ts'

const FAST = { retry: { backoff: { first: 1, max: 1 } }, backoff: { first: 1, max: 1 } } as const

/** A run that a process executes until its step `slow`, which ends when it is let go. Meanwhile another process has it. */
async function overtaken(t: TestContext, staleCode: (slow: () => Promise<string>) => Code<null, unknown>) {
  const s: Scene = await scene(t)
  await s.db.pool.query('create table effect (what text)')
  const [begun, go] = [gate(), gate()]
  const slow = async () => {
    begun.open()
    await go.opened
    return 'stale'
  }
  const stale = workflow<null, unknown>('flow', FAST, staleCode(slow))
  const { jobId } = await start(s.lh, stale, null, { runId: 'r' })
  await signal(s.lh, stale, 'r', 'go', 1)
  // It does not renew, and so does not notice.
  const worker = s.worker([handleRuns(stale)], { lease: '30m', concurrency: 1, prefetch: 0 })
  await begun.opened
  await s.db.clock.advance('1 h')
  const [holds, ends] = [gate(), gate()]
  const fresh = workflow<null, unknown>('flow', FAST, async (run) => {
    await run.step('hold', async () => {
      holds.open()
      await ends.opened
    })
    return 'fresh'
  })
  const drained = s.leasehold().drain([handleRuns(fresh)])
  await holds.opened
  let isRefused = false
  worker.on('refused', () => {
    isRefused = true
  })
  const written = () => count(s.db, `from leasehold.step where name <> 'hold'`)
  go.open()
  // Without the fence it would write, and might then wait for ever.
  await until('it is refused, or has written', async () => isRefused || (await written()) > 0)
  assert.equal(await written(), 0)
  ends.open()
  await drained
  assert.equal((await s.lh.get(jobId))!.result, 'fresh')
  assert.equal(await written(), 0)
  await nothingHeld(s.db)
  return s
}

test('a stale process records no step, and its other steps are aborted', async (t) => {
  const aborted = gate()
  let reason: unknown
  await overtaken(t, (slow) => async (run) => {
    const other = run.step('other', async ({ signal }) => {
      signal.addEventListener('abort', () => {
        reason = signal.reason
        aborted.open()
      })
      await aborted.opened
    })
    await Promise.all([run.step('slow', slow), other])
  })
  await inTime(aborted.opened, 'its other step was not aborted')
  assert.equal((reason as { code: string }).code, 'LEASE_LOST')
})

test('a stale process commits nothing in a transaction of its run', async (t) => {
  const { db } = await overtaken(t, (slow) => async (run) => {
    await run.step('slow', slow).catch(() => {})
    await run.tx('tx', (tx) => tx.query(`insert into effect values ('tx')`).then(() => null))
  })
  assert.equal(await count(db, 'from effect'), 0)
})

test('a stale process starts no job and consumes no signal', async (t) => {
  const late = kind<null>('late', {})
  const { db } = await overtaken(t, (slow) => async (run) => {
    await Promise.all([run.step('slow', slow)])
    await Promise.all([run.job(late, null), run.signal('go')])
  })
  assert.equal(await count(db, `from leasehold.jobs where kind = 'late'`), 0)
  assert.equal(await count(db, 'from leasehold.signal where consumed'), 0)
})

for (const [what, lose] of [
  ['the last record', `delete from leasehold.step where name = 'two'`],
  ['all records', 'delete from leasehold.step'],
] as const) {
  test(`a process whose run has lost ${what} in a failover writes nothing more, and the run resumes from what is there`, async (t) => {
    const { lh, db } = await scene(t)
    const done: string[] = []
    let isLost = false
    const flow = workflow<null, string>('flow', FAST, async (run) => {
      const noted = (name: string) => run.step(name, () => void done.push(name))
      await noted('one')
      await noted('two')
      await run.step('three', async () => {
        done.push('three')
        if (!isLost) await db.pool.query(lose)
        isLost = true
      })
      return 'done'
    })
    const { jobId } = await start(lh, flow, null)
    await lh.drain([handleRuns(flow)])
    await lh.drain([handleRuns(flow)])
    assert.equal((await lh.get(jobId))!.result, 'done')
    const again = what === 'all records' ? ['one', 'two', 'three'] : ['two', 'three']
    assert.deepEqual(done, ['one', 'two', 'three', ...again])
    const { rows } = await db.pool.query('select name from leasehold.step order by place')
    assert.deepEqual(
      rows.map(({ name }) => name),
      ['one', 'two', 'three'],
    )
  })
}
