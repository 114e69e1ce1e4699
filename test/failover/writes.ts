// Every write that a worker makes about a claimed job, and the properties each must have after a failover.
import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { LeaseLostError } from '../../src/core/errors.ts'
import { Lane, type Queryable } from '../../src/db/lane.ts'
import { withTransaction } from '../../src/db/transaction.ts'
import { assertLease } from '../../src/effects/lease.ts'
import { Effects } from '../../src/effects/once.ts'
import { claim, newClaimId, releaseClaim, renew } from '../../src/jobs/claim.ts'
import { type Completion, complete, completeWithin } from '../../src/jobs/completion.ts'
import type { JobId } from '../../src/jobs/job.ts'
import { cancel } from '../../src/jobs/operator.ts'
import { cancelRequests, progress, recorded, type Settlement, settle } from '../../src/jobs/outcome.ts'
import { ScanCursors } from '../../src/jobs/scan-cursors.ts'
import { fencedTable } from '../../src/tables/index.ts'
import { freshDatabase } from '../support/database.ts'
import type { FailingDatabase } from '../support/failover.ts'
import { LEASE_MS, newWorker } from '../support/queue.ts'

export type Holder = Awaited<ReturnType<typeof claimIn>>
export type Answer = 'accepted' | 'refused' | 'busy'
export type Write = (lane: Lane, holder: Holder, db: FailingDatabase) => Promise<Answer>

export const WRITES: Readonly<Record<string, Write>> = {
  complete: (lane, holder) => completed(lane, holder, {}),
  'complete without keeping the job': (lane, holder) => completed(lane, holder, { keepMs: false }),
  'complete in a transaction': (lane, { worker, lease }, { pool }) =>
    unlessLost(withTransaction(pool, (tx) => completeWithin(lane.within(tx), worker, lease))),
  fail: settling((lease) => ({ ...lease, verb: 'fail', error: new Error('on purpose'), delayMs: 0 })),
  bury: settling((lease) => ({ ...lease, verb: 'bury', error: new Error('on purpose'), reason: 'fatal' })),
  snooze: settling((lease) => ({ ...lease, verb: 'snooze', delayMs: 60_000 })),
  release: settling((lease) => ({ ...lease, verb: 'release' })),
  cancel: settling((lease) => ({ ...lease, verb: 'cancel' })),
  progress: async (lane, { worker, lease }) => {
    const answer = await progress(lane, lease, { by: worker.label })
    return answer === 'noted' ? 'accepted' : answer
  },
  renew: async (lane, { worker, lease }) => {
    const { held } = await renew(lane, worker, [lease.claimId], LEASE_MS)
    return held.length > 0 ? 'accepted' : 'refused'
  },
  'release of the whole claim': async (lane, { worker, lease }) =>
    (await releaseClaim(lane, worker, lease.claimId)).length > 0 ? 'accepted' : 'refused',
  assertLease: (lane, { lease }, { pool }) =>
    unlessLost(withTransaction(pool, (tx) => assertLease(lane.within(tx), lease))),
  once: async (lane, { worker, lease }) => {
    const ran: string[] = []
    const answer = await unlessLost(new Effects(lane, lease).once('charge', () => ran.push(worker.label)))
    assert.equal(ran.length, answer === 'accepted' ? 1 : 0)
    return answer
  },
  'once in a transaction': (lane, { worker, lease }, { pool }) =>
    unlessLost(withTransaction(pool, (tx) => new Effects(lane, lease).once('charge', () => worker.label, { tx }))),
}

/** Claims the next job of the queue, and nothing else. */
export async function claimIn(db: FailingDatabase, queue: string, label: string) {
  const worker = newWorker(label)
  const request = { claimId: newClaimId(), worker, kinds: ['mail'], limit: 1, leaseMs: LEASE_MS }
  const jobs = await claim(new Lane(db.pool), request, new ScanCursors([queue]).next().walk)
  assert.equal(jobs.length, 1, `jobs to claim in ${queue}`)
  return { worker, lease: jobs[0]! }
}

/** The stale holder is refused before, while and after the job is held; the rightful one is accepted. */
export async function isForTheRightfulHolder(db: FailingDatabase, write: Write, stale: Holder): Promise<void> {
  const { jobId, queue } = stale.lease
  const lane = new Lane(db.pool)
  const refusesStale = async (when: string) => {
    const before = await everythingAbout(db, jobId)
    assert.equal(await write(lane, stale, db), 'refused', when)
    assert.deepEqual(await everythingAbout(db, jobId), before, when)
  }
  await refusesStale('the job is pending')
  const rightful = await claimIn(db, queue, 'rightful')
  assert.equal(rightful.lease.jobId, jobId)
  await refusesStale('the job is held')
  assert.equal(await write(lane, rightful, db), 'accepted')
  await refusesStale('the holder has written')
}

/** A worker whose reply was lost queries the outcome. The result is about its own claim. */
export async function recordIsAboutTheClaim(db: FailingDatabase, stale: Holder): Promise<void> {
  const lane = new Lane(db.pool)
  const rightful = await claimIn(db, stale.lease.queue, 'rightful')
  const leases = [stale.lease, rightful.lease]
  assert.deepEqual(await recorded(lane, leases), ['superseded', 'held'])
  await complete(lane, rightful.worker, [rightful.lease])
  assert.deepEqual(await recorded(lane, leases), ['superseded', 'completed'])
}

/** A request to cancel is for the claim that holds the job when it is made. */
export async function cancelReachesTheRightfulHolder(db: FailingDatabase, stale: Holder): Promise<void> {
  const lane = new Lane(db.pool)
  const { jobId, queue } = stale.lease
  const rightful = await claimIn(db, queue, 'rightful')
  assert.deepEqual(await cancel(lane, [jobId]), [{ jobId, outcome: 'requested' }])
  assert.equal((await cancelRequests(lane, [stale.lease])).length, 0)
  assert.equal((await cancelRequests(lane, [rightful.lease])).length, 1)
}

/** A fenced table in a database that took no part in the failover, with a row for the job. */
export async function receipts(t: TestContext, jobId: JobId) {
  const { pool } = await freshDatabase(t)
  const table = fencedTable('receipt', { id: 'job_id', columns: ['holder'] })
  await pool.query('create table receipt (job_id bigint primary key, holder text)')
  await pool.query(table.sql())
  await pool.query('insert into receipt values ($1)', [jobId])
  return {
    write: ({ lease, worker }: Holder) => table.write(pool, lease.jobId, lease.generation, { holder: worker.label }),
    holder: async () => (await pool.query('select holder from receipt')).rows[0].holder as string,
  }
}

/** Every row that belongs to the job. ctid and xmin show an update that changes no value. */
export async function everythingAbout(db: FailingDatabase, jobId: JobId): Promise<unknown> {
  const of = (table: string, condition: string) =>
    db.pool.query(`select ctid::text, xmin::text, t.* from leasehold.${table} t where ${condition} order by ctid`, [
      jobId,
    ])
  const answers = await Promise.all([
    of('job', 'id = $1'),
    of('claim', '$1 = any (job_ids)'),
    of('archive', 'id = $1'),
    of('dead_letter', 'id = $1'),
    of('job_attempt', 'job_id = $1'),
    of('effect', 'job_id = $1'),
  ])
  return answers.map(({ rows }) => rows)
}

/** Against a column, or the element of a list that belongs to the row. */
const CLAIM_FENCE = /((?:\w+\.)?claim_id) = ([$\w.]+|\(\$2::bigint\[\]\)\[.*\])/g

/** Sends every statement without its test of the claim. */
export class LaneWithoutFence extends Lane {
  readonly #left: { out: number }

  constructor(db: Queryable, left = { out: 0 }, outermost?: Lane) {
    super(db, {}, outermost)
    this.#left = left
  }

  /** How many statements had such a test. */
  get leftOut(): number {
    return this.#left.out
  }

  override within(tx: Queryable): Lane {
    return new LaneWithoutFence(tx, this.#left, this.outermost)
  }

  override run(statement: string, values: readonly unknown[]) {
    const text = statement.replaceAll(CLAIM_FENCE, '$1 is not null and $2::bigint is not null')
    if (text === statement) return super.run(statement, values)
    this.#left.out++
    return super.run(text.replace(/^-- \S+/, '$&_without_fence'), values)
  }
}

async function completed(lane: Lane, { worker, lease }: Holder, more: Pick<Completion, 'keepMs'>): Promise<Answer> {
  const { refused, busy } = await complete(lane, worker, [{ ...lease, ...more, result: { by: worker.label } }])
  return refused.length > 0 ? 'refused' : busy.length > 0 ? 'busy' : 'accepted'
}

function settling(settlement: (lease: Holder['lease']) => Settlement): Write {
  return async (lane, { worker, lease }) => {
    const [answer] = await settle(lane, worker, [settlement(lease)])
    return answer!.outcome === 'refused' || answer!.outcome === 'busy' ? answer!.outcome : 'accepted'
  }
}

async function unlessLost(write: Promise<unknown>): Promise<Answer> {
  try {
    await write
    return 'accepted'
  } catch (error) {
    if (error instanceof LeaseLostError) return 'refused'
    throw error
  }
}
