import { backoffMs } from '../core/backoff.ts'
import { CENTURY_MS } from '../core/duration.ts'
import { ConcurrentModificationError, EffectUnknownError, InvalidInputError, LeaseLostError } from '../core/errors.ts'
import { parseInput } from '../core/schema.ts'
import { Cancel, Fatal, RetryAfter, Snooze } from '../core/steering.ts'
import type { Connection } from '../db/connection.ts'
import type { Worker } from '../jobs/job.ts'
import type { HeldJob, Job } from './job.ts'
import type { Outcome } from './pending-outcome.ts'
import { RunningBatchJob, RunningJob } from './running-job.ts'

/** Runs the handler of a job, and returns what is to be recorded. Never rejects. */
export async function execute(held: HeldJob, connection: Connection, worker: Worker): Promise<Outcome> {
  const { kind } = held.handler
  let input: unknown
  try {
    const stored: unknown = JSON.parse(held.claimed.payload)
    input = kind.schema === undefined ? stored : await parseInput(kind.name, kind.schema, stored)
  } catch (error) {
    // A schema that fails for another reason than the input, such as a lookup that could not be made, may do better later.
    return judged(held, error, () =>
      error instanceof InvalidInputError ? { verb: 'bury', error, reason: 'invalid_input' } : failed(held, error),
    )
  }
  let outcome: Outcome
  try {
    const { tracing } = connection
    const result = await (tracing === undefined
      ? call(held, input, connection, worker)
      : tracing.handle(held.claimed, async () => call(held, input, connection, worker)))
    outcome = held.completedWithin ? { verb: 'confirm' } : { verb: 'complete', result, keepMs: kind.keepMs }
  } catch (error) {
    outcome = outcomeOfError(held, error)
  }
  // Promise.all rejects with the first failure, and its other effects go on.
  if (held.effects !== undefined) await held.effects.end()
  return outcome
}

/** What is to be recorded when the handler has thrown this. */
export function outcomeOfError(held: HeldJob, error: unknown): Outcome {
  return judged(held, error, () => outcomeOf(held, error))
}

function call(held: HeldJob, input: unknown, connection: Connection, worker: Worker): unknown {
  return held.batch === undefined
    ? held.handler.run(new RunningJob(held, input, connection, worker) as unknown as Job<never>)
    : held.batch.join(held, (settle) => new RunningBatchJob(held, input, connection, worker, settle))
}

/** A proxy can throw at the mere question what it is. What cannot be judged is an ordinary failure. */
function judged(held: HeldJob, error: unknown, judge: () => Outcome): Outcome {
  try {
    return judge()
  } catch {
    return isOurs(held) ? { verb: 'release' } : failed(held, error)
  }
}

/** The worker's doing, not the job's. */
function isOurs({ aborted }: HeldJob): boolean {
  return aborted === 'stopping' || aborted === 'lease_lost'
}

function outcomeOf(held: HeldJob, error: unknown): Outcome {
  const isLoss = error instanceof LeaseLostError && error.jobId === held.claimed.jobId
  // Not the job's fault, so its attempt is handed back, if the lease is not gone altogether.
  if (isLoss) return { verb: 'release' }
  // However the handler ended, a person has to find out.
  if (error instanceof EffectUnknownError && error.jobId === held.claimed.jobId) {
    return { verb: 'bury', error, reason: 'effect_unknown' }
  }
  if (isOurs(held)) return { verb: 'release' }
  if (error instanceof ConcurrentModificationError) return yielded(held, error)
  if (error instanceof Fatal) return { verb: 'bury', error, reason: 'fatal' }
  if (error instanceof Snooze) return { verb: 'snooze', delayMs: delayOf(error), waitsFor: error.waitsFor }
  if (error instanceof Cancel) return { verb: 'cancel', error }
  if (held.aborted === 'cancelled' && held.handler.undoes !== true) return { verb: 'cancel' }
  if (error instanceof RetryAfter) return { verb: 'fail', error, delayMs: delayOf(error) }
  return failed(held, error)
}

/** A guard found that another writer came first. */
function yielded(held: HeldJob, error: ConcurrentModificationError): Outcome {
  held.concurrentModification = error
  const { kind, onConcurrentModification } = held.handler
  if (onConcurrentModification === 'retry') return { verb: 'snooze', delayMs: kind.backoff.firstMs }
  return { verb: 'cancel', error: new Cancel('concurrent_modification') }
}

/** Checked when it was made, but it may have been changed since. */
function delayOf({ delayMs }: Snooze | RetryAfter): number {
  if (typeof delayMs === 'number' && delayMs >= 0) return delayMs
  throw new TypeError('not a delay')
}

export function failed({ claimed, handler }: HeldJob, error: unknown): Outcome {
  return {
    verb: 'fail',
    error,
    delayMs: Math.round(Math.min(backoffMs(claimed.attempt, handler.kind.backoff), CENTURY_MS)),
  }
}
