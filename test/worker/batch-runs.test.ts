// Batch handlers that take runs: several jobs of a key in one call, in their order. The relay is one (src/outbox/sender.ts).
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { z } from 'zod'
import { type BatchJob, handleBatch, kind, queue } from '../../src/index.ts'
import { inRuns } from '../../src/worker/handler.ts'
import { gate } from '../support/gate.ts'
import { nothingLeft } from '../support/order.ts'
import { until } from '../support/until.ts'
import { count, nothingHeld, scene } from '../support/worker.ts'

const step = kind<number>('step', { queue: 'steps', ordered: true, backoff: { first: 1, max: 1 } })
const JOBS = 400

type Call = readonly BatchJob<number>[]

/** Jobs 0, 1, 2 … of one key, and a worker whose runs grow while it is fast. */
async function oneKey(t: TestContext, run: (jobs: Call, signal: AbortSignal) => void | Promise<void>, of = step) {
  const setting = await scene(t)
  const { lh } = setting
  await lh.configure([of, queue('steps', { ordered: true, onDeadLetter: 'skip' })])
  const inputs = Array.from({ length: JOBS }, (_, input) => ({ input, partitionKey: 'k' }))
  const ids = (await lh.enqueueMany(of, inputs)).map(({ jobId }) => jobId)
  const worker = setting.worker([inRuns(handleBatch(of, run, { size: 50 }))])
  const done = () => worker.tally.completed + worker.tally.deadLetters + worker.tally.cancelled
  return { ...setting, ids, events: worker, allDone: () => until('all have ended', () => done() === JOBS) }
}

const inputsOf = (jobs: Call) => jobs.map(({ input }) => input)

test('a call has several jobs of a key, in their order, and no more than its size', async (t) => {
  const calls: number[][] = []
  const { db, events, allDone } = await oneKey(t, (jobs) => void calls.push(inputsOf(jobs)))
  await allDone()
  assert.deepEqual(
    calls.flat(),
    Array.from({ length: JOBS }, (_, n) => n),
  )
  const longest = Math.max(...calls.map(({ length }) => length))
  assert.ok(longest > 1 && longest <= 50, `the longest call had ${longest} jobs`)
  await events.stop()
  await nothingHeld(db)
  await nothingLeft(db)
})

test('what is behind a job that has not succeeded goes back, and spends no attempt, whatever the handler makes of it', async (t) => {
  let failed: number | undefined
  const done: number[] = []
  const { db, events, allDone } = await oneKey(t, (jobs) => {
    for (const [place, job] of jobs.entries()) {
      const isToFail = failed === undefined && place === 1 && jobs.length > 3
      if (isToFail) failed = job.input
      if (isToFail) job.fail(new Error('not this time'))
      // Those behind the failed one have an outcome, too, and it does not count.
      else job.succeed()
      if (!isToFail) done.push(job.input)
    }
  })
  await allDone()
  assert.notEqual(failed, undefined)
  const again = done.lastIndexOf(failed!)
  assert.deepEqual(
    done.slice(again),
    Array.from({ length: JOBS - failed! }, (_, n) => failed! + n),
    'from the failed one on, all of them in order',
  )
  const attempts = 'from leasehold.archive where attempts ='
  assert.deepEqual([await count(db, `${attempts} 2`), await count(db, `${attempts} 1`)], [1, JOBS - 1])
  await events.stop()
  await nothingHeld(db)
  await nothingLeft(db)
})

test('outcomes that come in another order are recorded in that of the run', async (t) => {
  let failed: number | undefined
  const begun: number[] = []
  const { db, events, allDone } = await oneKey(t, (jobs) => {
    begun.push(...inputsOf(jobs))
    const isToFail = failed === undefined && jobs.length > 3
    if (isToFail) failed = jobs[1]!.input
    for (const job of [...jobs].reverse()) {
      if (isToFail && job.input === failed) job.fail(new Error('not this time'))
      else job.succeed()
    }
  })
  await allDone()
  assert.deepEqual(
    begun.slice(begun.lastIndexOf(failed!)),
    Array.from({ length: JOBS - failed! }, (_, n) => failed! + n),
  )
  assert.equal(begun.filter((n) => n === failed! - 1).length, 1, 'the one before it was recorded')
  assert.equal(await count(db, 'from leasehold.archive where attempts = 1'), JOBS - 1)
  await events.stop()
  await nothingHeld(db)
  await nothingLeft(db)
})

test('a worker that stops gives the jobs of a call back, with no attempt spent', async (t) => {
  const hangs = gate()
  const { db, events } = await oneKey(t, (jobs) => {
    if (jobs.length < 3) return
    hangs.open()
    return new Promise(() => {})
  })
  await hangs.opened
  await events.stop({ grace: 0 })
  await nothingHeld(db)
  const left = JOBS - events.tally.completed
  assert.equal(await count(db, `from leasehold.job where attempts = 0 and claim_id is null`), left)
  assert.equal(await count(db, 'from leasehold.job where not blocked'), 1, 'the head of the key, and no other')
})

test('a job that is cancelled in the middle of a call ends its run, and those behind it go on later', async (t) => {
  const [hangs, goOn] = [gate(), gate()]
  let cancelled: number | undefined
  const done: number[] = []
  const { db, lh, ids, events, allDone } = await oneKey(t, async (jobs) => {
    if (cancelled === undefined && jobs.length > 3) {
      cancelled = jobs[1]!.input
      hangs.open()
      await goOn.opened
      await until('the job is aborted', () => jobs[1]!.signal.aborted)
      jobs[0]!.succeed()
      jobs[1]!.fail(jobs[1]!.signal.reason)
      done.push(jobs[0]!.input)
      return // The others have succeeded, says the handler; but they were behind the cancelled one.
    }
    done.push(...inputsOf(jobs))
  })
  await hangs.opened
  await lh.cancel(ids[cancelled!]!)
  goOn.open()
  await allDone()
  const expected = Array.from({ length: JOBS }, (_, n) => n).filter((n) => n !== cancelled)
  assert.deepEqual(done, expected)
  assert.equal(await count(db, `from leasehold.archive where status = 'cancelled'`), 1)
  await events.stop()
  await nothingHeld(db)
  await nothingLeft(db)
})

test('a job whose input is refused ends its run before the call begins', async (t) => {
  const refused = new Set<number>()
  let length = 0
  // While calls are long: each tenth input is refused when it is read.
  const strict = kind('step', {
    queue: 'steps',
    ordered: true,
    input: z.number().refine((n) => {
      if (length < 4 || n % 10 !== 5) return true
      refused.add(n)
      return false
    }),
  })
  const done: number[] = []
  const { db, allDone, events } = await oneKey(
    t,
    (jobs) => {
      length = Math.max(length, jobs.length)
      done.push(...inputsOf(jobs))
    },
    strict as never,
  )
  await allDone()
  assert.ok(refused.size > 0)
  assert.equal(events.tally.deadLetters, refused.size)
  assert.deepEqual(
    done,
    Array.from({ length: JOBS }, (_, n) => n).filter((n) => !refused.has(n)),
  )
  await events.stop()
  await nothingHeld(db)
})
