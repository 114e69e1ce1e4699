// The queue's functions, with defaults for tests.
import { randomUUID } from 'node:crypto'
import { Lane } from '../../src/db/lane.ts'
import { claim, newClaimId } from '../../src/jobs/claim.ts'
import { type Completion, complete, type NotWritten } from '../../src/jobs/completion.ts'
import { enqueue, type NewJob } from '../../src/jobs/enqueue.ts'
import { dropPartitions, pruneAttempts, pruneFinished } from '../../src/jobs/housekeeping.ts'
import type { ClaimedJob, JobId, Worker } from '../../src/jobs/job.ts'
import { ScanCursors } from '../../src/jobs/scan-cursors.ts'
import type { TestDatabase } from './database.ts'

export const LEASE_MS = 30_000

export function newWorker(label = 'test:1'): Worker {
  return { id: randomUUID(), label }
}

export async function enqueueOne(lane: Lane, job: Partial<NewJob> = {}): Promise<JobId> {
  const [answer] = await enqueue(lane, [{ kind: 'mail', input: { to: 'ada' }, ...job }])
  return answer!.jobId
}

export async function enqueueMany(lane: Lane, count: number, job: Partial<NewJob> = {}): Promise<JobId[]> {
  const jobs = Array.from({ length: count }, (_, n) => ({ kind: 'mail', input: { n }, ...job }))
  return (await enqueue(lane, jobs)).map((answer) => answer.jobId)
}

interface ClaimOptions {
  readonly limit?: number
  readonly worker?: Worker
  readonly queues?: readonly string[]
  readonly kinds?: readonly string[]
}

/** A claim from the beginning of the queues. */
export async function claimNext(lane: Lane, options: ClaimOptions = {}): Promise<ClaimedJob[]> {
  const { limit = 1, worker = newWorker(), queues = ['mail'], kinds = queues } = options
  const request = { claimId: newClaimId(), worker, kinds, limit, leaseMs: LEASE_MS }
  return claim(lane, request, new ScanCursors(queues).next().walk)
}

/** One round of pruning finished jobs and attempts: whole days, and rows in the default partitions. */
export async function pruneHistory(lane: Lane, attemptsMs: number): Promise<number> {
  const dropped = (await dropPartitions(lane, attemptsMs)) ?? 0
  return dropped + (await pruneFinished(lane)) + (await pruneAttempts(lane, attemptsMs))
}

/** One job in a queue of its own, claimed. */
export async function claimedBy(
  lane: Lane,
  worker: Worker,
  queue: string,
  job: Partial<NewJob> = {},
): Promise<ClaimedJob> {
  await enqueueOne(lane, { queue, ...job })
  const [claimed] = await claimNext(lane, { queues: [queue], kinds: ['mail'], worker })
  return claimed!
}

export async function completeAll(lane: Lane, worker: Worker, items: readonly Completion[]): Promise<NotWritten> {
  const refused: NotWritten['refused'] = []
  let open = items
  while (open.length > 0) {
    const answer = await complete(lane, worker, open)
    refused.push(...answer.refused)
    open = answer.busy
  }
  return { refused, busy: [] }
}

export interface JobRow {
  readonly id: string
  readonly status: string
  readonly lease_generation: string
  readonly attempts: number
  readonly [column: string]: unknown
}

/** One job from the SQL view. */
export async function jobRow(db: Pick<TestDatabase, 'pool'>, jobId: JobId): Promise<JobRow> {
  const row = await findJobRow(db, jobId)
  if (row === undefined) throw new Error(`job ${jobId} does not exist`)
  return row
}

export async function findJobRow(db: Pick<TestDatabase, 'pool'>, jobId: JobId): Promise<JobRow | undefined> {
  const { rows } = await db.pool.query('select * from leasehold.jobs where id = $1', [jobId])
  if (rows.length > 1) throw new Error(`job ${jobId} has ${rows.length} rows`)
  return rows[0]
}

/** Number of jobs in each status, from the SQL view. */
export async function countByStatus(db: Pick<TestDatabase, 'pool'>): Promise<Record<string, number>> {
  const { rows } = await db.pool.query<{ status: string; count: number }>(
    'select status, count(*)::int from leasehold.jobs group by status order by status',
  )
  return Object.fromEntries(rows.map(({ status, count }) => [status, count]))
}

/** A lane on a session of its own, and that session's backend. */
export async function session(db: TestDatabase) {
  const client = await db.connect()
  const { rows } = await client.query<{ pid: number }>('select pg_backend_pid() as pid')
  return { client, lane: new Lane(client), pid: rows[0]!.pid }
}
