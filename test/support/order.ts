// Ordered queues in tests: claims of runs, what is always true of a key, and functions that stop where a test wants.
import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import type pg from 'pg'
import { Lane } from '../../src/db/lane.ts'
import { claim, newClaimId } from '../../src/jobs/claim.ts'
import type { NewJob } from '../../src/jobs/enqueue.ts'
import { enqueue } from '../../src/jobs/enqueue.ts'
import type { ClaimedJob, JobId, Worker } from '../../src/jobs/job.ts'
import { settle } from '../../src/jobs/outcome.ts'
import { everyStart } from '../../src/jobs/scan-walk.ts'
import { freshDatabase, type TestDatabase, waitUntilBlocked } from './database.ts'
import { LEASE_MS, newWorker, session } from './queue.ts'

export type OnDeadLetter = 'block' | 'skip' | 'park'

export interface Ordered {
  readonly db: TestDatabase
  readonly lane: Lane
}

/** A database in which the queue `mail` is ordered. */
export async function orderedQueue(t: TestContext, onDeadLetter: OnDeadLetter = 'block'): Promise<Ordered> {
  const db = await freshDatabase(t)
  await db.pool.query("insert into leasehold.queue (name, ordered, on_dead_letter) values ('mail', true, $1)", [
    onDeadLetter,
  ])
  return { db, lane: new Lane(db.pool) }
}

/** Jobs 1, 2, 3 … of one key, by one call. */
export async function enqueueInKey(lane: Lane, count: number, job: Partial<NewJob> = {}): Promise<JobId[]> {
  const jobs = Array.from({ length: count }, (_, n) => ({ kind: 'mail', input: n + 1, partitionKey: 'k', ...job }))
  return (await enqueue(lane, jobs)).map(({ jobId }) => jobId)
}

export interface RunOptions {
  readonly worker?: Worker
  readonly limit?: number
  readonly runLength?: number
  readonly kinds?: readonly string[]
  readonly queues?: readonly string[]
  readonly leaseMs?: number
}

/** Heads, each with its run. */
export async function claimRuns(lane: Lane, options: RunOptions = {}): Promise<ClaimedJob[]> {
  const { worker = newWorker(), limit = 10, runLength = 100, queues = ['mail'], kinds = ['mail'] } = options
  const { leaseMs = LEASE_MS } = options
  const request = { claimId: newClaimId(), worker, kinds, limit, leaseMs, runLength }
  return claim(lane, request, everyStart(queues))
}

/** The run of the first key, head included. */
export async function claimRun(lane: Lane, options: RunOptions = {}): Promise<ClaimedJob[]> {
  const [head] = await claimRuns(lane, options)
  return head === undefined ? [] : [head, ...(head.run ?? [])]
}

export function idsOf(jobs: readonly { readonly jobId: JobId }[]): JobId[] {
  return jobs.map(({ jobId }) => jobId)
}

/** The job becomes a dead letter. */
export async function bury(lane: Lane, worker: Worker, job: ClaimedJob): Promise<void> {
  const [settled] = await settle(lane, worker, [{ ...job, verb: 'bury', error: 'x', reason: 'fatal' }])
  assert.equal(settled?.outcome, 'dead_letter')
}

export async function countRows(db: Pick<TestDatabase, 'pool'>, table: string): Promise<number> {
  return (await db.pool.query(`select count(*)::int as count from leasehold.${table}`)).rows[0].count
}

/**
 * What is always true of committed rows of ordered queues: a key whose first job is blocked has a blocking dead letter in front,
 * or will be looked at; no other job than the first is in the claim index; what is claimed are the first jobs of their key, under
 * one claim; every key that is in use has its row, and every other row of a key will be looked at; and nothing is claimed behind
 * a dead letter that blocks.
 *
 * A sweep or a release passes over a job that another transaction has locked, and marks the claim: such a job is left where it
 * was, and what was in front of it goes its own way. No worker starts it before it was returned, behind what is then in front of it.
 */
const BROKEN = `
with placed as (
  select j.*, row_number() over (partition by j.queue, j.partition_key order by j.key_seq) as place,
    (select min(d.key_seq) from leasehold.dead_letter d
      where d.blocks_key and d.queue = j.queue and d.partition_key = j.partition_key) as blocked_from,
    exists (select from leasehold.order_check c where c.queue = j.queue and c.key = j.partition_key) as is_checked
  from leasehold.job j
  where j.key_seq is not null and exists (select from leasehold.queue q where q.name = j.queue and q.ordered)
)
select id, 'is stuck' as what from placed
where place = 1 and blocked and claim_id is null and not is_checked and (blocked_from is null or blocked_from > key_seq)
union all
select id, 'is not the first and can be claimed' from placed where place > 1 and not blocked and claim_id is null
union all
select id, 'is let in behind a dead letter' from placed where blocked_from < key_seq and not blocked and claim_id is null
union all
select id, 'is claimed behind a dead letter' from placed p where blocked_from < key_seq and claim_id is not null
  and not exists (select from leasehold.claim c where c.id = p.claim_id and c.swept)
union all
select p.id, 'is claimed, and one in front of it is not, or by another claim' from placed p
where p.claim_id is not null and exists (
  select from placed a where a.queue = p.queue and a.partition_key = p.partition_key and a.place < p.place
    and a.claim_id is distinct from p.claim_id)
  and not exists (select from leasehold.claim c where c.id = p.claim_id and c.swept)
union all
select id, 'has no row of its key' from placed p
where not exists (select from leasehold.order_key o where o.queue = p.queue and o.key = p.partition_key)
union all
select null, 'is missing in key ' || o.key || ', which has a row and is not looked at' from leasehold.order_key o
where exists (select from leasehold.queue q where q.name = o.queue and q.ordered)
  and not exists (select from placed p where p.queue = o.queue and p.partition_key = o.key)
  and not exists (select from leasehold.dead_letter d where d.blocks_key and d.queue = o.queue and d.partition_key = o.key)
  and not exists (select from leasehold.order_check c where c.queue = o.queue and c.key = o.key)
union all
select j.id, 'has no place' from leasehold.job j
where j.key_seq is null and exists (select from leasehold.queue q where q.name = j.queue and q.ordered)`

export async function broken(db: Pick<TestDatabase, 'pool'>): Promise<string[]> {
  const { rows } = await db.pool.query<{ id: string | null; what: string }>(BROKEN)
  return rows.map(({ id, what }) => `job ${id ?? '?'} ${what}`)
}

/** Nothing is left of any key. */
export async function nothingLeft(db: Pick<TestDatabase, 'pool'>): Promise<void> {
  const left = { jobs: await countRows(db, 'job'), keys: await countRows(db, 'order_key') }
  const checks = await countRows(db, 'order_check')
  assert.deepEqual({ ...left, checks }, { jobs: 0, keys: 0, checks: 0 })
}

const GATE = 4712

export interface GatedSession {
  readonly lane: Lane
  readonly client: pg.Client
  readonly pid: number
  /** Resolves when the session waits at the gate. */
  arrived(): Promise<void>
  /** Lets it go on. */
  open(): Promise<void>
}

/**
 * A session that stops in a function of the schema, before the text given. All other sessions of the database run the same
 * function and do not stop.
 */
export async function stopsIn(db: TestDatabase, name: string, before: string): Promise<GatedSession> {
  const [keeper, stopped] = [await session(db), await session(db)]
  const { rows } = await keeper.client.query('select pg_get_functiondef($1::regproc) as text', [`leasehold.${name}`])
  const stop = `if current_setting('test.stops', true) = '${name}' then perform pg_advisory_xact_lock_shared(${GATE}); end if;\n`
  const text: string = rows[0].text
  assert.equal(text.split(before).length, 2, `leasehold.${name}() has the text once: ${before}`)
  await keeper.client.query(text.replace(before, () => stop + before))
  await keeper.client.query('select pg_advisory_lock($1)', [GATE])
  await stopped.client.query(`set test.stops = '${name}'`)
  return {
    ...stopped,
    arrived: () => waitUntilBlocked(keeper.client, stopped.pid),
    open: async () => void (await keeper.client.query('select pg_advisory_unlock($1)', [GATE])),
  }
}
