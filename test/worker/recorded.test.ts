// The events about outcomes whose reply was lost, or whose batch failed half way: exactly what was recorded.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { QueryArrayConfig, QueryArrayResult } from 'pg'
import { Lane } from '../../src/db/lane.ts'
import { handle, type Kind, kind, type WorkerEvents } from '../../src/index.ts'
import { claim, newClaimId } from '../../src/jobs/claim.ts'
import { enqueue } from '../../src/jobs/enqueue.ts'
import { sweep } from '../../src/jobs/housekeeping.ts'
import { cancel, redrive } from '../../src/jobs/operator.ts'
import { everyStart } from '../../src/jobs/scan-walk.ts'
import { Events } from '../../src/worker/events.ts'
import { HeldJob } from '../../src/worker/job.ts'
import { announceOutcome, newTally } from '../../src/worker/outcome-events.ts'
import { Outcomes } from '../../src/worker/outcomes.ts'
import type { Outcome } from '../../src/worker/pending-outcome.ts'
import { Turns } from '../../src/worker/turns.ts'
import { suiteDatabase } from '../support/database.ts'
import { jobRow, LEASE_MS, newWorker } from '../support/queue.ts'

const db = await suiteDatabase()
const lane = new Lane(db.pool)
const worker = newWorker()

/** Claimed by this worker, as many as asked for. */
async function held(of: Kind, count = 1): Promise<HeldJob[]> {
  const { name, maxAttempts } = of
  await enqueue(
    lane,
    Array.from({ length: count }, () => ({ kind: name, input: 1, maxAttempts })),
  )
  const claimId = newClaimId()
  const request = { claimId, worker, kinds: [name], limit: count, leaseMs: LEASE_MS }
  const leased = {
    id: claimId,
    open: 1,
    grantedUntil: 0,
    deadline: Number.POSITIVE_INFINITY,
    lost: false,
    leftToSweep: false,
  }
  const handler = handle(of, () => {})
  return (await claim(lane, request, everyStart([name]))).map((job) => new HeldJob(job, handler, leased))
}

/** Sends the outcomes in one batch, the first time through `send`, and returns their events. */
async function reported(
  reports: readonly (readonly [HeldJob, Outcome])[],
  send: (name: string, query: () => Promise<QueryArrayResult>) => Promise<QueryArrayResult> = (_, query) => query(),
): Promise<string[]> {
  const query = (config: QueryArrayConfig) => send(/^-- (\S+)/.exec(config.text)![1]!, () => db.pool.query(config))
  const events = new Events(() => {}, 'a worker')
  const lines: string[] = []
  for (const name of [
    'completed',
    'cancelled',
    'retrying',
    'released',
    'refused',
    'unknown',
  ] satisfies (keyof WorkerEvents)[]) {
    events.on(name, () => void lines.push(name))
  }
  events.on('dead_letter', ({ reason, error }) => void lines.push(`dead_letter ${reason} ${error}`))
  const lane = new Lane({ query })
  const outcomes = new Outcomes(lane, worker, new Turns(lane, lane), 100, {
    known: (report, known) => announceOutcome(events, newTally(), report, known),
    letIn: () => {},
    problem: () => {},
  })
  for (const [job, outcome] of reports) outcomes.add(job, outcome)
  outcomes.start()
  await outcomes.drained()
  await outcomes.stop()
  return lines
}

/** Fails the first statement of this name, after `meanwhile`, and without carrying it out. */
function failingOnce(statement: string, meanwhile: () => Promise<unknown> = async () => {}) {
  let failed = false
  return async (name: string, query: () => Promise<QueryArrayResult>) => {
    if (failed || name !== statement) return query()
    failed = true
    await meanwhile()
    throw Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' })
  }
}

/** Carries the first statement of this name out, and loses its reply. */
function losingReply(statement: string, meanwhile: () => Promise<unknown> = async () => {}) {
  let lost = false
  return async (name: string, query: () => Promise<QueryArrayResult>) => {
    const answer = await query()
    if (lost || name !== statement) return answer
    lost = true
    await meanwhile()
    throw Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' })
  }
}

const fail = { verb: 'fail', error: new Error('no route'), delayMs: 1 } as const

test('completions of one call that were acknowledged are reported, although its next statement failed', async () => {
  const [forgotten, kept] = [kind('many forgotten', { keep: false }), kind('few kept')]
  const outcomes = [...(await held(forgotten, 60)).map((job) => [job, { verb: 'complete', keepMs: false }] as const)]
  const last = (await held(kept)).map((job) => [job, { verb: 'complete' }] as const)
  const lines = await reported([...outcomes, ...last], failingOnce('job.complete'))
  assert.deepEqual(
    lines,
    Array.from({ length: 61 }, () => 'completed'),
  )
})

test('a claim goes along with completions, and waits for no other outcome', async () => {
  const names: string[] = []
  let wants = () => {}
  const query = (config: QueryArrayConfig) => {
    const name = /^-- (\S+)/.exec(config.text)![1]!
    names.push(name)
    if (name !== 'job.settle' && name !== 'job.recorded') return db.pool.query(config)
    wants()
    return db.pool.query(config).finally(() => names.push(`${name} answered`))
  }
  const own = new Lane({ query })
  const turns = new Turns(own, own)
  const claimed: Promise<unknown>[] = []
  const request = { worker, kinds: ['none'], limit: 1, leaseMs: LEASE_MS }
  wants = () => void claimed.push(turns.claim({ ...request, claimId: newClaimId() }, everyStart(['none'])))
  const outcomes = new Outcomes(own, worker, turns, 100, { known: () => {}, letIn: () => {}, problem: () => {} })
  outcomes.start()
  const confirmed = { verb: 'confirm' } as const
  const completed = { verb: 'complete' } as const
  const seen: string[][] = []
  for (const batch of [[fail], [confirmed], [completed, fail]] as Outcome[][]) {
    const jobs = await held(kind('claimed beside'), batch.length)
    batch.forEach((outcome, n) => void outcomes.add(jobs[n]!, outcome))
    await outcomes.drained()
    await Promise.all(claimed.splice(0))
    seen.push(names.splice(0))
  }
  await outcomes.stop()
  assert.deepEqual(seen, [
    ['job.settle', 'job.claim', 'job.settle answered'],
    ['job.recorded', 'job.claim', 'job.recorded answered', 'job.settle', 'job.claim', 'job.settle answered'],
    ['job.complete', 'job.settle', 'job.claim', 'job.settle answered'],
  ])
})

test('completions that were acknowledged are reported, although a later statement of their batch failed', async () => {
  const forgotten = kind('forgotten', { keep: false })
  const jobs = await held(forgotten, 10)
  const complete = { verb: 'complete', keepMs: false } as const
  const outcomes = jobs.map((job, n) => [job, n === 9 ? fail : complete] as const)
  const lines = await reported(outcomes, failingOnce('job.settle'))
  assert.deepEqual(lines, [...Array.from({ length: 9 }, () => 'completed'), 'retrying'])
})

test('a refused completion is reported as refused, although a later statement of its batch failed', async () => {
  const [swept] = await held(kind('refused'))
  await db.pool.query("update leasehold.claim set expires_at = now() - interval '1 s'")
  await sweep(lane)
  const [failed] = await held(kind('failed'))
  const complete = { verb: 'complete', keepMs: 1_000 } as const
  const outcomes = [[swept!, complete] as const, [failed!, fail] as const]
  assert.deepEqual(await reported(outcomes, failingOnce('job.settle')), ['refused', 'retrying'])
})

test('a failure that the sweep overtook is reported as the sweep’s dead letter', async () => {
  await db.pool.query('delete from leasehold.claim') // Its only claim: the job is to blame.
  const [job] = await held(kind('swept', { maxAttempts: 1 }))
  const lines = await reported(
    [[job!, fail]],
    failingOnce('job.settle', async () => {
      await db.pool.query("update leasehold.claim set expires_at = now() - interval '1 s'")
      await sweep(lane)
    }),
  )
  assert.deepEqual(lines, ['dead_letter lease_expired undefined'])
  assert.equal((await jobRow(db, job!.claimed.jobId)).reason, 'lease_expired')
})

test('a failure that the sweep overtook, with attempts left, is refused', async () => {
  const [job] = await held(kind('swept with attempts'))
  const lines = await reported(
    [[job!, fail]],
    failingOnce('job.settle', async () => {
      await db.pool.query("update leasehold.claim set expires_at = now() - interval '1 s'")
      await sweep(lane)
    }),
  )
  assert.deepEqual(lines, ['refused'])
  assert.equal((await jobRow(db, job!.claimed.jobId)).last_error, null)
})

test('an outcome that was recorded is reported, also when the job has changed since', async () => {
  const [failed, buried, released] = await held(kind('recorded'), 3)
  assert.deepEqual(await reported([[failed!, fail]], losingReply('job.settle')), ['retrying'])
  const bury = { verb: 'bury', error: new Error('never'), reason: 'fatal' } as const
  const again = losingReply('job.settle', () => redrive(lane, [buried!.claimed.jobId]))
  assert.deepEqual(await reported([[buried!, bury]], again), ['dead_letter fatal Error: never'])
  await cancel(lane, [released!.claimed.jobId])
  assert.deepEqual(await reported([[released!, { verb: 'release' }]], losingReply('job.settle')), ['cancelled'])
})

test('a job completed by its handler and now missing is reported as completed only with keep: false', async () => {
  for (const [keep, expected] of [
    [false, 'completed'],
    ['7d', 'unknown'],
  ] as const) {
    const [job] = await held(kind(`confirmed ${keep}`, { keep }))
    job!.completions = 1
    await db.pool.query('delete from leasehold.job where id = $1', [job!.claimed.jobId])
    assert.deepEqual(await reported([[job!, { verb: 'confirm' }]]), [expected])
  }
})
