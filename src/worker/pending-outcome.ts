/** What is to be recorded of a job, and what became of that. */
import { RolledBackError } from '../core/errors.ts'
import { encodeSafely } from '../core/storable.ts'
import type { Completion } from '../jobs/completion.ts'
import { type Lease, leaseOf } from '../jobs/job.ts'
import { type Recorded, type Settlement, wasRecorded } from '../jobs/outcome.ts'
import type { HeldJob } from './job.ts'

/** What an error may come to, roughly; it is rendered when it is sent. */
const ERROR_BYTES = 8_192

/** A completion is held for at most this share of what its handler took, so that the time in which a crash repeats it grows little. */
const HELD_SHARE = 0.2
const HELD_MS = 20

type WithoutLease<Item> = Item extends Lease ? Omit<Item, keyof Lease> : never

/** complete, or one of the settlements, or confirm: the handler completed the job in a transaction of its own. */
export type Outcome =
  | ({ readonly verb: 'complete' } & WithoutLease<Completion>)
  | WithoutLease<Settlement>
  | { readonly verb: 'confirm' }

/** What became of an outcome. unrecordable: the server refuses to store it in any form. */
export type RecordedAs = 'completed' | 'pending' | 'dead_letter' | 'cancelled' | 'refused' | 'unknown' | 'unrecordable'

export interface PendingOutcome {
  readonly job: HeldJob
  outcome: Outcome
  /** Sent before, and the reply was lost; or a transaction of the handler's may have ended the job. */
  uncertain: boolean
  /** The server refused what was in it, so this is a plainer one in its place. */
  replaced: boolean
  /** Of what has to be sent, roughly. */
  readonly bytes: number
  /** Undefined until then. */
  known: RecordedAs | undefined
  /** The sweep made the job a dead letter, before this outcome could be recorded. */
  leaseExpired?: boolean
}

/** A result is rendered when its handler ends, one at a time, rather than a batch at once. */
export function render(outcome: Outcome): { outcome: Outcome; bytes: number } {
  if (outcome.verb !== 'complete') return { outcome, bytes: 'error' in outcome ? ERROR_BYTES : 0 }
  if (outcome.result === undefined) return { outcome, bytes: 0 }
  const { result, ...rest } = outcome
  const resultJson = encodeSafely(result)
  return { outcome: { ...rest, resultJson }, bytes: resultJson.length }
}

/**
 * Until when this may be held, for others to leave with it. Only a completion on which nothing depends but its own record: one
 * with a partition key may have successors, and a run of a workflow may wait for one with a parent.
 */
export function heldUntil({ job, outcome }: PendingOutcome): number {
  const { startedAt, endedAt, claimed } = job
  if (outcome.verb !== 'complete' || claimed.partitionKey !== null || claimed.runFrom !== null)
    return Number.NEGATIVE_INFINITY
  if (startedAt === undefined || endedAt === undefined) return Number.NEGATIVE_INFINITY
  return endedAt + Math.min(HELD_SHARE * (endedAt - startedAt), HELD_MS)
}

export function backoffOf({ job }: PendingOutcome): number {
  return job.handler.kind.backoff.firstMs
}

export function rolledBack(): RolledBackError {
  return new RolledBackError(
    'The handler called job.complete(tx) and returned, but that transaction did not commit. Throw, or await its commit.',
  )
}

/** Notes what is on record under its claim. */
export function learn(report: PendingOutcome, answer: Recorded): void {
  report.leaseExpired = answer === 'lease_expired'
  report.known = knownFrom(answer, report)
}

/** Never held: the claim was gone when the outcome was refused, and a claim never comes back. */
function knownFrom(answer: Recorded, { job, outcome: { verb } }: PendingOutcome): RecordedAs {
  if (answer === 'completed' || answer === 'cancelled' || answer === 'dead_letter') return answer
  if (answer === 'lease_expired') return 'dead_letter'
  // Not kept, so it left no trace: the handler's transaction has completed it.
  if (answer === 'unknown') return verb === 'confirm' && job.handler.kind.keepMs === false ? 'completed' : 'unknown'
  if (!wasRecorded(verb, answer)) return 'refused'
  return verb === 'bury' ? 'dead_letter' : 'pending'
}

/** A completion with its lease, to be sent. Named one by one: a spread took a twentieth of Node's time for a small statement. */
export function toCompletion({ job, outcome }: PendingOutcome): Completion {
  const { jobId, claimId, generation, runFrom } = job.claimed
  const { resultJson, keepMs } = outcome as Outcome & { verb: 'complete' }
  return { jobId, claimId, generation, runFrom, resultJson, keepMs }
}

/** Any other outcome but a confirmation, with its lease. */
export function toSettlement({ job, outcome }: PendingOutcome): Settlement {
  return { ...(outcome as WithoutLease<Settlement>), ...leaseOf(job.claimed) }
}

/** Finds the report that an answer is about. Nearly always there is nothing to find, and then nothing is prepared. */
export function finder(reports: readonly PendingOutcome[], answers: number): (lease: Lease) => PendingOutcome {
  const byFence = new Map(answers === 0 ? [] : reports.map((report) => [fenceOf(report.job.claimed), report]))
  return (lease) => byFence.get(fenceOf(lease))!
}

function fenceOf({ jobId, claimId }: Lease): string {
  return `${jobId}/${claimId}`
}
