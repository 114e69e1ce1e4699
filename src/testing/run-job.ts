/** Runs a handler once with a fake job, without a database. */
import { checkInteger } from '../core/check.ts'
import { CancelRequestedError, InvalidOptionError } from '../core/errors.ts'
import { checkOptions } from '../core/options.ts'
import { parseInput } from '../core/schema.ts'
import { encodeInput, encodeSafely } from '../core/storable.ts'
import type { ClaimedJob, ClaimId, JobId } from '../jobs/job.ts'
import type { BuryReason } from '../jobs/outcome.ts'
import type { StoredTime } from '../jobs/stored-time.ts'
import { RETURNS_NOTHING } from '../worker/batch.ts'
import { outcomeOfError } from '../worker/execute.ts'
import type { Handler } from '../worker/handler.ts'
import { HeldJob } from '../worker/job.ts'
import { FakeJob } from './fake-job.ts'

export interface RunJobOptions {
  /** 1 for the first. The last one is the kind's `maxAttempts`. Default: 1. */
  readonly attempt?: number
  /** Results of effects that earlier attempts have recorded, by the name given to `job.once`. Default: none. */
  readonly effects?: Readonly<Record<string, unknown>>
  readonly partitionKey?: string
  readonly metadata?: Readonly<Record<string, unknown>>
  /** When it aborts, so does the signal of the job, as if an operator had cancelled it. */
  readonly signal?: AbortSignal
}

/** What a worker would record. */
export type JobOutcome<Result = unknown> =
  | { readonly outcome: 'completed' /** As JSON keeps it; null if there is none. */; readonly result: Result }
  | { readonly outcome: 'retrying'; readonly error: unknown; readonly delayMs: number }
  | {
      readonly outcome: 'dead_letter'
      readonly error: unknown
      readonly reason: BuryReason | 'attempts_exhausted'
    }
  | { readonly outcome: 'snoozed'; readonly delayMs: number }
  | { readonly outcome: 'cancelled'; readonly error: unknown }
  /** The handler threw LeaseLostError. */
  | { readonly outcome: 'released' }

export type JobRun<Result = unknown> = JobOutcome<Result> & {
  /** What the handler passed to `job.progress`, in order, as JSON keeps it. */
  readonly progress: readonly unknown[]
  /** Results of effects, those of earlier attempts included: pass them to the next attempt. */
  readonly effects: Readonly<Record<string, unknown>>
}

/**
 * Calls the handler with this input. Throws what enqueue() would throw for the input, and nothing else: an error of the handler is
 * an outcome. A batch handler gets a batch of one.
 */
export async function runJob<Input, Result>(
  handler: Handler<Input, Result>,
  input: NoInfer<Input>,
  options: RunJobOptions = {},
): Promise<JobRun<Result>> {
  checkHandler(handler)
  checkOptions('runJob', options, ['attempt', 'effects', 'partitionKey', 'metadata', 'signal'])
  const { kind } = handler
  const payload = encodeInput(input)
  const stored: unknown = JSON.parse(payload)
  const parsed = kind.schema === undefined ? stored : await parseInput(kind.name, kind.schema, stored)
  const held = hold(handler, payload, options)
  const job = new FakeJob(held, parsed, options.effects ?? {})
  const cancel = () => held.abort('cancelled', new CancelRequestedError(job.id))
  if (options.signal?.aborted) cancel()
  options.signal?.addEventListener('abort', cancel)
  try {
    const outcome = (await call(handler, held, job)) as JobOutcome<Result>
    return { ...outcome, progress: job.notes, effects: Object.fromEntries(job.effects) }
  } finally {
    options.signal?.removeEventListener('abort', cancel)
  }
}

async function call({ run, runBatch }: Handler, held: HeldJob, job: FakeJob): Promise<JobOutcome> {
  held.state = 'running'
  let returned: unknown
  try {
    returned = await (runBatch === undefined ? run(job as never) : runBatch([job], job.signal))
    if (runBatch !== undefined && returned !== undefined) throw new TypeError(RETURNS_NOTHING)
  } catch (error) {
    if (job.decided === undefined) return failed(held, error)
  }
  const { completed, decided } = job
  if (decided !== undefined && 'error' in decided) return failed(held, decided.error)
  const { result } = completed ?? decided ?? { result: returned }
  return { outcome: 'completed', result: result === undefined ? null : JSON.parse(encodeSafely(result)) }
}

function failed(held: HeldJob, error: unknown): JobOutcome {
  const outcome = outcomeOfError(held, error)
  switch (outcome.verb) {
    case 'bury':
      return { outcome: 'dead_letter', error, reason: outcome.reason }
    case 'snooze':
      return { outcome: 'snoozed', delayMs: outcome.delayMs }
    case 'cancel':
      return { outcome: 'cancelled', error }
    case 'fail':
      return held.claimed.attempt < held.claimed.maxAttempts
        ? { outcome: 'retrying', error, delayMs: outcome.delayMs }
        : { outcome: 'dead_letter', error, reason: 'attempts_exhausted' }
    default:
      return { outcome: 'released' }
  }
}

function hold(handler: Handler, payload: string, options: RunJobOptions): HeldJob {
  const { kind } = handler
  const attempt = checkInteger('runJob.attempt', options.attempt ?? 1, 1, kind.maxAttempts)
  const now = storedTime(Date.now())
  const claimed: ClaimedJob = {
    jobId: '1' as JobId,
    claimId: '1' as ClaimId,
    generation: attempt,
    attempt,
    maxAttempts: kind.maxAttempts,
    queue: kind.queue,
    kind: kind.name,
    payload,
    priority: kind.priority,
    availableAt: now,
    claimedAt: now,
    // The same for every attempt, so that effect keys are.
    createdAt: storedTime(Date.UTC(2026, 0)),
    partitionKey: options.partitionKey ?? null,
    bucket: 0,
    line: 0,
    salt: '0',
    metadata: options.metadata === undefined ? null : encodeInput(options.metadata),
    runFrom: null,
    run: undefined,
  }
  const forever = { grantedUntil: Number.POSITIVE_INFINITY, deadline: Number.POSITIVE_INFINITY }
  const claim = { ...forever, id: claimed.claimId, open: 1, lost: false, leftToSweep: false }
  return new HeldJob(claimed, handler, claim)
}

function storedTime(ms: number): StoredTime {
  const micros = BigInt(ms - Date.UTC(2000, 0)) * 1000n
  return micros.toString(16).padStart(16, '0') as StoredTime
}

function checkHandler(handler: Handler): void {
  if (typeof handler?.run !== 'function')
    throw new InvalidOptionError('runJob', 'make the handler with handle(kind, fn)')
  if (handler.onSignal === undefined) return
  throw new InvalidOptionError('runJob', 'a run of a workflow needs a database: testDatabase() and clock.runToEnd()')
}
