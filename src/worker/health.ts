import { monotonicMs } from '../core/timer.ts'
import type { BeatRecord } from './registration.ts'

/** Three beats of 5 s each. Other workers note it as dead by then. */
const STUCK_AFTER_MS = 15_000

/**
 * starting: it has not beaten yet. running: it claims, or its slots are full. stuck: it could not beat for 15 s. draining: it claims
 * nothing more.
 */
export type WorkerHealthState = 'starting' | 'running' | 'stuck' | 'draining'

export interface WorkerHealth {
  readonly label: string
  readonly state: WorkerHealthState
  /** Jobs whose outcome is not known yet. */
  readonly held: number
  /** Of these, jobs whose handlers run. */
  readonly running: number
  /** Since the last beat that succeeded. Undefined: none did. */
  readonly beatAgeMs: number | undefined
  /** The database answered the last beat with this error code. Undefined: it did not refuse it, or that is longer ago than 15 s. */
  readonly refused: string | undefined
  /** Since the last claim that succeeded, also one that found nothing. Long where all slots are taken. Undefined: none did. */
  readonly claimAgeMs: number | undefined
}

interface Counted {
  readonly held: number
  readonly running: number
  readonly claimedAt: number | undefined
}

export function workerHealth(
  label: string,
  drains: boolean,
  { held, running, claimedAt }: Counted,
  { seenAt, refusal }: BeatRecord,
  now = monotonicMs(),
): WorkerHealth {
  const age = (at: number | undefined) => (at === undefined ? undefined : Math.max(0, now - at))
  const beatAgeMs = age(seenAt)
  const state = drains ? 'draining' : stateBy(beatAgeMs)
  const refused = refusal !== undefined && now - refusal.at <= STUCK_AFTER_MS ? refusal.code : undefined
  return { label, state, held, running, beatAgeMs, refused, claimAgeMs: age(claimedAt) }
}

function stateBy(beatAgeMs: number | undefined): WorkerHealthState {
  if (beatAgeMs === undefined) return 'starting'
  return beatAgeMs > STUCK_AFTER_MS ? 'stuck' : 'running'
}
