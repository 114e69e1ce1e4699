/** Why a job does not run, or what became of it: a fact for code, and a sentence for people. */
import type { Lane, Row } from '../db/lane.ts'
import { checkId } from '../db/parameters.ts'
import type { JobId } from '../jobs/job.ts'
import { ownerOf } from '../jobs/ring.ts'
import { getJobs, type JobSnapshot } from './jobs.ts'
import { WHY_PENDING, WHY_PROCESSING, WORKER_HANDLES } from './why.sql.ts'

/** Jobs ahead are counted up to here. */
const AHEAD_AT_MOST = 1_000

/** What a run of a workflow waits for. */
export type RunWait =
  | { readonly what: 'signal'; readonly name: string }
  | { readonly what: 'sleep'; readonly name: string; readonly until: Date }
  | { readonly what: 'retry'; readonly name: string; readonly until: Date }
  | { readonly what: 'job'; readonly name: string; readonly jobId: string }

type Because =
  | { readonly because: 'not_found' }
  | { readonly because: 'completed'; readonly at: Date }
  | { readonly because: 'cancelled'; readonly at: Date; readonly reason: string | null }
  | {
      readonly because: 'dead_letter'
      readonly at: Date
      readonly reason: string
      readonly error: string | null
    }
  | { readonly because: 'lease_held'; readonly worker: string; readonly until: Date; readonly cancelRequested: boolean }
  | { readonly because: 'lease_expired'; readonly worker: string; readonly at: Date }
  | { readonly because: 'expired'; readonly at: Date }
  | { readonly because: 'not_due'; readonly until: Date }
  | {
      readonly because: 'retry'
      readonly attempt: number
      readonly of: number
      readonly until: Date
      readonly error: string | null
    }
  | { readonly because: 'paused'; readonly what: 'queue' | 'kind'; readonly name: string; readonly since: Date }
  | { readonly because: 'run_paused' }
  | { readonly because: 'run_waits'; readonly waits: readonly RunWait[] }
  | { readonly because: 'key_blocked'; readonly key: string; readonly by: JobId; readonly state: FrontState }
  | { readonly because: 'key_unchecked'; readonly key: string }
  | { readonly because: 'no_handler'; readonly kind: string; readonly queue: string }
  | { readonly because: 'no_owner'; readonly queue: string; readonly bucket: number }
  | {
      readonly because: 'owner_lacks_handler'
      readonly kind: string
      readonly queue: string
      readonly worker: string
      readonly seat: number
    }
  | { readonly because: 'suspect'; readonly crashes: number; readonly workers: number }
  | { readonly because: 'ready'; readonly ahead: number; readonly aheadAtLeast: boolean; readonly workers: number }

type FrontState = 'dead_letter' | 'processing' | 'pending'

/** `because` is for code; `sentence` is for people, and may change. */
export type Why = { readonly jobId: JobId; readonly sentence: string } & Because

export async function why(lane: Lane, id: string): Promise<Why> {
  const jobId = checkId('jobId', id) as JobId
  for (;;) {
    const [job] = await getJobs(lane, [jobId])
    const found = job === undefined ? { because: 'not_found' as const } : await becauseOf(lane, job)
    // Undefined: between two statements a worker has claimed the job, or its attempt has ended.
    if (found !== undefined) return { jobId, ...found, sentence: sentenceOf(found) }
  }
}

async function becauseOf(lane: Lane, job: JobSnapshot): Promise<Because | undefined> {
  const at = job.finishedAt!
  switch (job.status) {
    case 'completed':
      return { because: 'completed', at }
    case 'cancelled':
      return { because: 'cancelled', at, reason: job.reason }
    case 'dead_letter':
      return { because: 'dead_letter', at, reason: job.reason!, error: errorText(job) }
    case 'processing':
      return whyHeld(lane, job)
    case 'pending': {
      const [row] = await lane.run<Column>(WHY_PENDING, [job.id, AHEAD_AT_MOST])
      return row && whyPending(lane, row, errorText(job))
    }
  }
}

function errorText({ lastError }: JobSnapshot): string | null {
  return lastError === null ? null : `${lastError.name}: ${lastError.message}`
}

async function whyHeld(lane: Lane, { id, cancelRequested }: JobSnapshot): Promise<Because | undefined> {
  const [row] = await lane.run<'worker_id' | 'label' | 'until_ms' | 'is_over'>(WHY_PROCESSING, [id])
  if (row === undefined) return undefined
  const worker = row.label ?? row.worker_id!
  const until = new Date(Number(row.until_ms))
  return row.is_over === 't'
    ? { because: 'lease_expired', worker, at: until }
    : { because: 'lease_held', worker, until, cancelRequested }
}

type Column =
  | 'queue'
  | 'kind'
  | 'blocked'
  | 'crashes'
  | 'attempts'
  | 'max_attempts'
  | 'line'
  | 'partition_key'
  | 'waiting_for'
  | 'is_expired'
  | 'expires_ms'
  | 'is_future'
  | 'available_ms'
  | 'queue_paused_ms'
  | 'kind_paused_ms'
  | 'ring'
  | 'front_id'
  | 'front_state'
  | 'waits'
  | 'handlers'
  | 'ahead'

/** The first of these facts that keeps it from running. */
async function whyPending(lane: Lane, row: Row<Column>, error: string | null): Promise<Because> {
  const queue = row.queue!
  const kind = row.kind!
  const workers = Number(row.handlers)
  if (row.is_expired === 't') return { because: 'expired', at: new Date(Number(row.expires_ms)) }
  if (row.blocked === 't') return whyBlocked(row)
  const future = whyFuture(row, error)
  if (future !== undefined) return future
  if (row.queue_paused_ms !== null) {
    return { because: 'paused', what: 'queue', name: queue, since: new Date(Number(row.queue_paused_ms)) }
  }
  if (row.kind_paused_ms !== null) {
    return { because: 'paused', what: 'kind', name: kind, since: new Date(Number(row.kind_paused_ms)) }
  }
  if (workers === 0) return { because: 'no_handler', kind, queue }
  const isDivided = row.ring !== null && row.ring !== 'off' && Number(row.line) > 0
  const unclaimed = isDivided ? await whyUnclaimed(lane, row) : undefined
  if (unclaimed !== undefined) return unclaimed
  if (Number(row.crashes) > 0) return { because: 'suspect', crashes: Number(row.crashes), workers }
  const ahead = Number(row.ahead)
  return { because: 'ready', ahead, aheadAtLeast: ahead === AHEAD_AT_MOST, workers }
}

/** On the ring one worker alone claims the jobs of a key, whatever others handle. */
async function whyUnclaimed(lane: Lane, row: Row<Column>): Promise<Because | undefined> {
  const [queue, kind] = [row.queue!, row.kind!]
  const owner = await ownerOf(lane, queue, row.partition_key!)
  if (owner === undefined) return { because: 'no_owner', queue, bucket: Number(row.line) - 1 }
  const [known] = await lane.run<'handles'>(WORKER_HANDLES, [owner.workerId, kind])
  if (known?.handles !== 'f') return undefined
  return { because: 'owner_lacks_handler', kind, queue, worker: owner.label, seat: owner.seat }
}

function whyBlocked(row: Row<Column>): Because {
  const key = row.partition_key ?? ''
  if (row.front_id === null) return { because: 'key_unchecked', key }
  return { because: 'key_blocked', key, by: row.front_id as JobId, state: row.front_state as FrontState }
}

interface StoredWait {
  readonly name: string
  readonly type: string
  readonly state: string
  readonly childId: string | null
  readonly untilMs: number | null
}

function whyFuture(row: Row<Column>, error: string | null): Because | undefined {
  const names: string[] | null = row.waiting_for === null ? null : JSON.parse(row.waiting_for)
  if (names?.length === 0) return { because: 'run_paused' }
  if (row.is_future !== 't') return undefined
  const steps: StoredWait[] = row.waits === null ? [] : JSON.parse(row.waits)
  // The end of a job that a run has started reaches it as a signal of this name.
  const ofJobs = steps.map(({ childId }) => `job ${childId}`)
  const signals = (names ?? []).filter((name) => !ofJobs.includes(name))
  const waits = [...steps.flatMap(toWait), ...signals.map((name) => ({ what: 'signal' as const, name }))]
  if (waits.length > 0) return { because: 'run_waits', waits }
  const until = new Date(Number(row.available_ms))
  const attempt = Number(row.attempts) + 1
  return attempt > 1
    ? { because: 'retry', attempt, of: Number(row.max_attempts), until, error }
    : { because: 'not_due', until }
}

function toWait({ name, type, state, childId, untilMs }: StoredWait): RunWait[] {
  if (childId !== null) return [{ what: 'job', name, jobId: childId }]
  if (untilMs === null) return []
  const until = new Date(untilMs)
  return type === 'sleep' || state === 'retrying' ? [{ what: type === 'sleep' ? 'sleep' : 'retry', name, until }] : []
}

/** Why a job became a dead letter. */
export const REASONS: Readonly<Record<string, string>> = {
  attempts_exhausted: 'every attempt failed',
  fatal: 'its handler threw Fatal',
  invalid_input: 'its input was refused',
  effect_unknown: 'it is not known whether one of its effects happened',
  lease_expired: 'it died with its worker, time after time',
  expired: 'it was not started in time',
  parked: 'a job before it in its key is a dead letter',
}

function sentenceOf(of: Because): string {
  switch (of.because) {
    case 'not_found':
      return 'There is no such job: the id is unknown, past its retention, or its kind keeps nothing.'
    case 'completed':
      return `It was completed at ${time(of.at)}.`
    case 'cancelled':
      return `It was cancelled at ${time(of.at)}${of.reason === null ? '' : `: ${of.reason}`}.`
    case 'dead_letter':
      return `It is a dead letter since ${time(of.at)}, because ${REASONS[of.reason] ?? of.reason}${of.error === null ? '' : ` (${of.error})`}.`
    case 'lease_held':
      return `Worker ${of.worker} holds its lease until ${time(of.until)}${of.cancelRequested ? ', and was asked to cancel it' : ''}.`
    case 'lease_expired':
      return `The lease of worker ${of.worker} expired at ${time(of.at)}. The next sweep of a live worker reclaims it.`
    case 'expired':
      return `It expired at ${time(of.at)}, before a worker started it. A live worker makes it a dead letter soon.`
    case 'not_due':
      return `It is not due until ${time(of.until)}.`
    case 'retry':
      return `It waits for attempt ${of.attempt} of ${of.of}, until ${time(of.until)}${of.error === null ? '' : ` (${of.error})`}.`
    case 'paused':
      return `The ${of.what} ${of.name} is paused since ${time(of.since)}.`
    case 'run_paused':
      return 'The run is paused.'
    case 'run_waits':
      return `The run waits for ${of.waits.map(waitText).join(', or for ')}.`
    case 'key_blocked':
      return of.state === 'dead_letter'
        ? `Key ${of.key} is blocked by the dead letter ${of.by}. Redrive it, or unblock the key.`
        : `Key ${of.key} is blocked by job ${of.by}, which is ${of.state}.`
    case 'key_unchecked':
      return `It is blocked in key ${of.key}, and no job is ahead of it. A worker looks at the key again soon.`
    case 'no_handler':
      return `No live worker handles kind ${of.kind} in queue ${of.queue}.`
    case 'no_owner':
      return `No worker owns bucket ${of.bucket} of queue ${of.queue}: none has a seat on the ring.`
    case 'owner_lacks_handler':
      return `Worker ${of.worker}, on seat ${of.seat}, owns its key and has no handler for kind ${of.kind}. No other worker claims it.`
    case 'suspect':
      return of.crashes === 1
        ? 'Its worker crashed while it held this job. A worker that is empty claims it, with a few others like it.'
        : `${of.crashes} workers crashed while they held it. A worker that is empty claims it alone.`
    case 'ready':
      return `It is ready. ${aheadText(of.ahead, of.aheadAtLeast)}, and ${of.workers} ${of.workers === 1 ? 'worker handles' : 'workers handle'} its kind.`
  }
}

function waitText(wait: RunWait): string {
  if (wait.what === 'signal') return `signal ${wait.name}`
  if (wait.what === 'job') return `job ${wait.jobId} (${wait.name})`
  return wait.what === 'sleep'
    ? `its sleep to end at ${time(wait.until)}`
    : `a retry of step ${wait.name} at ${time(wait.until)}`
}

function aheadText(ahead: number, atLeast: boolean): string {
  if (ahead === 0) return 'No job is ahead of it'
  return `${ahead.toLocaleString('en')}${atLeast ? ' or more' : ''} ${ahead === 1 ? 'job is' : 'jobs are'} ahead of it`
}

/** Far times, such as those of waits without an end, may be beyond what a Date holds. */
export function time(at: Date): string {
  return Number.isNaN(at.getTime()) ? 'an unknown time' : at.toISOString()
}
