/** What a claim returns: its rows, and what the worker makes of them. */
import { listIn } from '../core/lists.ts'
import type { Row } from '../db/lane.ts'
import type { ClaimedJob, ClaimId, JobId } from './job.ts'
import { isEarlier, type StoredTime } from './stored-time.ts'

export type ClaimColumn =
  | 'id'
  | 'lease_generation'
  | 'attempts'
  | 'max_attempts'
  | 'queue'
  | 'kind'
  | 'payload'
  | 'priority'
  | 'available_at'
  | 'created_at'
  | 'partition_key'
  | 'partition_bucket'
  | 'salt'
  | 'metadata'
  | 'key_seq'
  | 'line'

export interface Claimed {
  /** Without those that follow another in its run. */
  readonly jobs: ClaimedJob[]
  /** What the server took to find them. */
  readonly walkMs: number
  /** When, by the clock of the database. Undefined: everything that was asked for is paused. */
  readonly at: StoredTime | undefined
  /** It found more than it returned: the inputs came to too much. */
  readonly cut: boolean
}

/** In the place of key_seq: a run of a workflow waits for the job. */
const HAS_PARENT = '-1'
/** In the kind of runs, in front of the version. Another run may join one of them while it is executed. */
const OF_RUNS = '@'

/** `kinds` as the claim asked for them. */
export function toClaimed(claimId: ClaimId, kinds: readonly string[], rows: readonly Row<ClaimColumn>[]): Claimed {
  const head = rows[0]!
  if (head.available_at === null) return { jobs: [], walkMs: 0, at: undefined, cut: false }
  const claimed: ClaimedJob[] = []
  const at = head.available_at as StoredTime
  const usual = { claimId, at, generation: Number(head.key_seq), kind: kinds[0]! }
  let keys: Map<string, InOrder[]> | undefined
  for (let i = 1; i < rows.length; i++) {
    const row = rows[i]!
    const job = toClaimedJob(usual, row)
    const hasParent = row.key_seq === HAS_PARENT || (row.key_seq === null && job.kind.includes(OF_RUNS))
    // Its completion has to look at more than its own row, and looks whether the queue is ordered, too.
    if (hasParent) claimed.push({ ...job, runFrom: undefined })
    else if (row.key_seq === null) claimed.push(job)
    else {
      keys ??= new Map()
      listIn(keys, `${job.queue}\0${job.partitionKey}`).push({ job, place: row.key_seq })
    }
  }
  for (const ofKey of keys?.values() ?? []) claimed.push(toRun(ofKey))
  const jobs = inOrder(claimed)
  const walkMs = Number(head.lease_generation) / 1_000
  return { jobs, walkMs, at, cut: Number(head.attempts) > jobs.length }
}

/** What is the same for most jobs of a claim, which returns null for it. */
interface Usual {
  readonly claimId: ClaimId
  readonly at: StoredTime
  readonly generation: number
  readonly kind: string
}

/** A job of an ordered queue, and its place among those of its key. */
interface InOrder {
  readonly job: ClaimedJob
  readonly place: string
}

/** The head of a key, with the jobs that follow it. */
function toRun(ofKey: InOrder[]): ClaimedJob {
  ofKey.sort((one, other) => (comesFirst(one.place, other.place) ? -1 : 1))
  const runFrom = ofKey[0]!.place
  const [head, ...run] = ofKey.map(({ job }) => ({ ...job, runFrom }))
  return run.length === 0 ? head! : { ...head!, run }
}

function toClaimedJob({ claimId, at, generation, kind: usualKind }: Usual, row: Row<ClaimColumn>): ClaimedJob {
  const kind = row.kind ?? usualKind
  const availableAt = row.available_at as StoredTime
  return {
    jobId: row.id as JobId,
    claimId,
    generation: row.lease_generation === null ? generation : Number(row.lease_generation),
    attempt: row.attempts === null ? 1 : Number(row.attempts),
    maxAttempts: row.max_attempts === null ? 5 : Number(row.max_attempts),
    queue: row.queue ?? kind,
    kind,
    payload: row.payload!,
    priority: row.priority === null ? 5 : Number(row.priority),
    availableAt,
    claimedAt: at,
    createdAt: (row.created_at ?? availableAt) as StoredTime,
    partitionKey: row.partition_key,
    bucket: Number(row.partition_bucket),
    line: row.line === null ? 0 : Number(row.line),
    salt: row.salt!,
    metadata: row.metadata,
    runFrom: null,
    run: undefined,
  }
}

/** Most urgent first, then oldest. They nearly always are: the rows come by id. */
function inOrder(jobs: ClaimedJob[]): ClaimedJob[] {
  for (let i = 1; i < jobs.length; i++) if (comesBefore(jobs[i]!, jobs[i - 1]!)) return jobs.sort(byOrder)
  return jobs
}

function byOrder(one: ClaimedJob, other: ClaimedJob): number {
  return comesBefore(one, other) ? -1 : 1
}

function comesBefore(one: ClaimedJob, other: ClaimedJob): boolean {
  if (one.priority !== other.priority) return one.priority < other.priority
  if (one.availableAt !== other.availableAt) return isEarlier(one.availableAt, other.availableAt)
  return comesFirst(one.jobId, other.jobId)
}

/** Of two numbers as text. */
function comesFirst(one: string, other: string): boolean {
  return one.length === other.length ? one < other : one.length < other.length
}
