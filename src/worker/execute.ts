import { backoffMs } from '../core/backoff.ts'
import { CENTURY_MS } from '../core/duration.ts'
import { ConcurrentModificationError, EffectUnknownError, InvalidInputError, LeaseLostError } from '../core/errors.ts'
import { parseInput } from '../core/schema.ts'
import { Cancel, Fatal, RetryAfter, Snooze } from '../core/steering.ts'
import type { Lane } from '../db/lane.ts'
import type { Tx } from '../db/tx.ts'
import { effectKey } from '../effects/key.ts'
import { assertLease } from '../effects/lease.ts'
import { Effects, type Once } from '../effects/once.ts'
import { completeWithin } from '../jobs/completion.ts'
import type { ClaimedJob, Worker } from '../jobs/job.ts'
import { progress } from '../jobs/outcome.ts'
import { dateOf } from '../jobs/stored-time.ts'
import type { HeldJob, Job } from './job.ts'
import type { Outcome } from './pending-outcome.ts'

/** Runs the handler of a job, and returns what is to be recorded. Never rejects. */
export async function execute(held: HeldJob, lane: Lane, worker: Worker): Promise<Outcome> {
  const { kind, run } = held.handler
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
    const result = await run(new RunningJob(held, input, lane, worker) as unknown as Job<never>)
    outcome = held.completedWithin ? { verb: 'confirm' } : { verb: 'complete', result, keepMs: kind.keepMs }
  } catch (error) {
    outcome = judged(held, error, () => outcomeOf(held, error))
  }
  // Promise.all rejects with the first failure, and its other effects go on.
  if (held.effects !== undefined) await held.effects.end()
  return outcome
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
  if (error instanceof Snooze) return { verb: 'snooze', delayMs: delayOf(error) }
  if (error instanceof Cancel) return { verb: 'cancel', error }
  if (held.aborted === 'cancelled') return { verb: 'cancel' }
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

/** The job as its handler sees it. Getters, because most handlers look at little of it. */
class RunningJob implements Job {
  readonly input: unknown
  readonly #held: HeldJob
  readonly #claimed: ClaimedJob
  readonly #lane: Lane
  readonly #worker: Worker

  constructor(held: HeldJob, input: unknown, lane: Lane, worker: Worker) {
    this.input = input
    this.#held = held
    this.#claimed = held.claimed
    this.#lane = lane
    this.#worker = worker
  }

  get id() {
    return this.#claimed.jobId
  }

  get kind() {
    return this.#claimed.kind
  }

  get queue() {
    return this.#claimed.queue
  }

  get attempt() {
    return this.#claimed.attempt
  }

  get maxAttempts() {
    return this.#claimed.maxAttempts
  }

  get claimId() {
    return this.#claimed.claimId
  }

  get generation() {
    return this.#claimed.generation
  }

  get partitionKey() {
    return this.#claimed.partitionKey
  }

  get metadata() {
    const { metadata } = this.#claimed
    return metadata === null ? null : JSON.parse(metadata)
  }

  get enqueuedAt() {
    return dateOf(this.#claimed.createdAt)
  }

  get signal() {
    return this.#held.signal
  }

  async complete(tx: Tx, result?: unknown): Promise<void> {
    const { claimed, handler } = this.#held
    // From here on only the database knows: the caller may drop the error, and the transaction may commit.
    this.#held.completions++
    const item = { ...claimed, result, keepMs: handler.kind.keepMs }
    await completeWithin(this.#lane.within(tx), this.#worker, item).catch((error) => {
      // This call changed nothing; another one may have.
      if (error instanceof LeaseLostError) this.#held.completions--
      throw error
    })
  }

  get once(): Once {
    const held = this.#held
    // Ended by its timeout or a stop, though the handler may still run.
    const isOver = () => held.state !== 'running'
    const isLost = () => held.aborted === 'lease_lost' || !held.leaseIsOurs() || isOver()
    const isCompleted = () => held.completedWithin
    held.effects ??= new Effects(this.#lane, this.#claimed, { isLost, isCompleted })
    return held.effects.once
  }

  effectKey(name: string): string {
    return effectKey(this.#claimed, name)
  }

  async assertLease(tx: Tx): Promise<void> {
    await assertLease(this.#lane.within(tx), this.#claimed)
  }

  async progress(note: unknown): Promise<void> {
    // Busy: another transaction has locked the row. A note is not worth waiting for.
    if ((await progress(this.#lane, this.#claimed, note)) === 'refused') throw this.#held.lost()
  }
}
