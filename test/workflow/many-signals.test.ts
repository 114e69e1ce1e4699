// A run that has more signals than it loads at once, most of which it does not wait for.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { Fatal } from '../../src/index.ts'
import { type Code, handleRuns, signal, start, workflow } from '../../src/workflow/index.ts'
import { gate } from '../support/gate.ts'
import { count, inTime, type Scene, scene } from '../support/worker.ts'

const SEND = `insert into leasehold.signal (job_id, salt, sent_at, name, payload)
  select j.id, j.salt, leasehold.clock(), $1, to_jsonb(n) from leasehold.job j, generate_series(1, $2::int) n`

/** A run with 12,000 signals that it does not wait for. One that is executed over and over fails. */
async function crowded(t: TestContext, code: Code<null, unknown>) {
  const s: Scene = await scene(t)
  let slices = 0
  const flow = workflow<null, unknown>('flow', {}, async (run) => {
    if (++slices > 5) throw new Fatal('it is executed over and over')
    return code(run, null)
  })
  const { jobId } = await start(s.lh, flow, null, { runId: 'r' })
  await s.db.pool.query(SEND, ['noise', 12_000])
  return { ...s, flow, jobId, runs: [handleRuns(flow)] }
}

test('a run receives the signal that it waits for behind 12,000 others', async (t) => {
  const { lh, flow, jobId, runs } = await crowded(t, async (run) => {
    const first = await run.signal('go')
    await run.step('between', () => {})
    return [first, await run.signal('go'), await run.signal('noise')]
  })
  await signal(lh, flow, 'r', 'go', 'a')
  await lh.drain(runs)
  assert.equal((await lh.get(jobId))!.label, 'waiting')
  await signal(lh, flow, 'r', 'go', 'b')
  await lh.drain(runs)
  assert.deepEqual((await lh.get(jobId))!.result, ['a', 'b', 1])
})

test('behind 12,000 others, too, a signal that was sent before the timeout wins', async (t) => {
  const { lh, db, flow, jobId, runs } = await crowded(t, (run) =>
    run.any({ go: run.signal('go'), late: run.sleep('1h') }),
  )
  await lh.drain(runs)
  await signal(lh, flow, 'r', 'go', 7)
  await db.clock.advance('1 h')
  await lh.drain(runs)
  assert.deepEqual((await lh.get(jobId))!.result, { name: 'go', value: 7 })
})

test('a run that executes a step meanwhile receives it at once', async (t) => {
  const [waits, received] = [gate(), gate()]
  const { lh, flow, jobId, runs, worker } = await crowded(t, async (run) => {
    const slow = run.step('slow', async () => {
      waits.open()
      await received.opened
    })
    const value = await run.signal('go')
    received.open()
    await slow
    return value
  })
  worker(runs)
  await waits.opened
  await signal(lh, flow, 'r', 'go', 7)
  await inTime(received.opened, 'the signal was not received')
  assert.equal((await lh.waitFor(jobId)).result, 7)
})

test('a run takes 2,500 signals of a name in the order of their sending, each once', async (t) => {
  const { lh, db, jobId, runs } = await crowded(t, async (run) => {
    let last = 0
    for (let n = 0; n < 2_500; n++) {
      const next = await run.signal<number>('go')
      if (next !== last + 1) throw new Fatal(`${next} after ${last}`)
      last = next
    }
    return last
  })
  await db.pool.query(SEND, ['go', 2_500])
  await lh.drain(runs)
  assert.equal((await lh.get(jobId))!.result, 2_500)
  assert.equal(await count(db, 'from leasehold.signal where consumed'), 2_500)
})
