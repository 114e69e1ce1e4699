// A worker that is killed at each step of an effect. The witness is a service outside the database, which counts.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { type JobId, Leasehold } from '../../src/index.ts'
import { countingDatabase, type TestDatabase } from '../support/database.ts'
import { type Line, startWorker, type WorkerProcess } from '../support/processes.ts'
import { type Provider, startProvider } from '../support/provider.ts'
import { jobRow } from '../support/queue.ts'
import { until } from '../support/until.ts'
import { type Step, type Work, work } from './programs/jobs.ts'

const PATIENT = { lease: '30s', sweep: '200ms' } as const

interface AfterTheKill {
  readonly db: TestDatabase
  readonly lh: Leasehold
  readonly provider: Provider
  readonly jobId: JobId
  /** Another worker, which holds the job by now. */
  readonly second: WorkerProcess
}

/** One worker begins the job and is killed at the given step; when its lease is over, another one claims it. */
async function killedAt(t: TestContext, act: Work['act'], once: Work['once']): Promise<AfterTheKill> {
  const db = await countingDatabase(t)
  await db.pool.query('create table effect (job_id bigint, generation bigint)')
  const provider = await startProvider(t)
  const lh = new Leasehold({ pool: db.pool })
  const { jobId } = await lh.enqueue(work, { act, once: { ...once!, provider: provider.url } })
  const first = await startWorker(t, db.url, { options: PATIENT })
  assert.deepEqual(await first.ends(), { code: null, signal: 'SIGKILL' })
  await db.clock.advance('31s')
  return { db, lh, provider, jobId, second: await startWorker(t, db.url, { options: PATIENT }) }
}

async function is({ db, jobId }: AfterTheKill, status: string) {
  return until(`job ${jobId} is ${status}`, async () => {
    const job = await jobRow(db, jobId)
    return job.status === status && job
  })
}

async function completed(after: AfterTheKill): Promise<Line['answer']> {
  await is(after, 'completed')
  return (await after.second.prints('charged')).answer
}

for (const ifUnknown of ['stop', 'retry'] as const) {
  test(`${ifUnknown}, killed before the effect is begun: it happens once`, async (t) => {
    const after = await killedAt(t, 'once', { dieAt: 'before begin', ifUnknown })
    assert.deepEqual(await completed(after), { effect: 'charge', number: 1 })
    assert.deepEqual([after.provider.happened(), after.provider.calls.length], [1, 1])
  })

  test(`${ifUnknown}, killed after the end is recorded: it has happened once, and the stored result is used`, async (t) => {
    const after = await killedAt(t, 'once', { dieAt: 'after done', ifUnknown })
    assert.deepEqual(await completed(after), { effect: 'charge', number: 1 })
    assert.deepEqual([after.provider.happened(), after.provider.calls.length], [1, 1])
    assert.equal((await after.lh.effects(after.jobId))[0]?.generation, 1)
  })
}

for (const [dieAt, calls] of [
  ['after begin', 1],
  ['after effect', 2],
] as const) {
  test(`retry, killed ${dieAt}: it is begun again under the same key, and happens once`, async (t) => {
    const after = await killedAt(t, 'once', { dieAt, ifUnknown: 'retry' })
    assert.deepEqual(await completed(after), { effect: 'charge', number: 1 })
    assert.deepEqual([after.provider.happened(), after.provider.calls.length], [1, calls])
    assert.equal(new Set(after.provider.calls.map(({ key }) => key)).size, 1)
  })
}

for (const [dieAt, happened] of [
  ['after begin', 0],
  ['after effect', 1],
] as const) {
  for (const reported of [true, false]) {
    // settleEffect() believes the operator, right or wrong.
    const times = reported ? happened : happened + 1
    test(`stop, killed ${dieAt}: a dead letter, and after "it ${reported ? 'happened' : 'did not happen'}" the job goes on`, async (t) => {
      const after = await killedAt(t, 'once', { dieAt, ifUnknown: 'stop' })
      const { lh, jobId, provider, second } = after
      const dead = await is(after, 'dead_letter')
      assert.deepEqual([dead.reason, dead.attempts, dead.lease_generation], ['effect_unknown', 2, '2'])
      const letter = await second.prints('dead_letter')
      assert.deepEqual([letter.reason, letter.error?.code], ['effect_unknown', 'EFFECT_UNKNOWN'])
      assert.deepEqual([provider.happened(), second.all('charged').length], [happened, 0])
      const [effect] = await lh.effects(jobId)
      assert.deepEqual([effect?.state, effect?.generation, effect?.finishedAt], ['started', 1, null])

      const finding = reported
        ? ({ happened: true, result: 'as the bank says' } as const)
        : ({ happened: false } as const)
      assert.equal(await lh.settleEffect(jobId, 'charge', finding), 'settled')
      assert.deepEqual(await lh.redrive(jobId), [jobId])
      assert.deepEqual(await completed(after), reported ? 'as the bank says' : { effect: 'charge', number: times })
      assert.equal(provider.happened(), times)
    })
  }
}

for (const dieAt of ['after effect', 'before commit', 'after done'] satisfies Step[]) {
  test(`in a transaction, killed ${dieAt === 'after done' ? 'after its commit' : dieAt}: the effect is there once`, async (t) => {
    const after = await killedAt(t, 'once in a transaction', { dieAt })
    await is(after, 'completed')
    const { rows } = await after.db.pool.query('select generation::int from effect')
    assert.deepEqual(rows, [{ generation: dieAt === 'after done' ? 1 : 2 }])
    assert.deepEqual(
      (await after.lh.effects(after.jobId)).map(({ state }) => state),
      ['done'],
    )
  })
}
