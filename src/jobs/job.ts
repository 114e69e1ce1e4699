import type { StoredTime } from './stored-time.ts'

/** Opaque: compare it, store it, pass it on. */
/** Result: what the job's handler returns, if its kind declares that. */
export type JobId<Result = unknown> = string & { readonly __brand: 'JobId'; readonly __result?: Result }

/** Drawn by the worker, so that it can name a claim whose reply was lost. 63 random bits: no two claims share one. */
export type ClaimId = string & { readonly __brand: 'ClaimId' }

export const STATUSES = ['pending', 'processing', 'completed', 'dead_letter', 'cancelled'] as const
export type Status = (typeof STATUSES)[number]

/** A worker process: a fresh UUID each boot, and a label for people, such as host:pid. */
export interface Worker {
  readonly id: string
  readonly label: string
}

/** Proof that one worker holds one job. Every write about a claimed job carries it; a stale one changes nothing. */
export interface Lease {
  readonly jobId: JobId
  /** The fence: no other claim ever has it. */
  readonly claimId: ClaimId
  /** Grows with each claim, for the life of the job. For stores outside that keep the highest they have seen. */
  readonly generation: number
}

/** The lease alone, of a job that carries more. */
export function leaseOf({ jobId, claimId, generation }: Lease): Lease {
  return { jobId, claimId, generation }
}

export interface ClaimedJob extends Lease {
  /** 1 for the first. */
  readonly attempt: number
  readonly maxAttempts: number
  readonly queue: string
  readonly kind: string
  /** The input as JSON text, not yet parsed. */
  readonly payload: string
  readonly priority: number
  readonly availableAt: StoredTime
  readonly claimedAt: StoredTime
  readonly createdAt: StoredTime
  readonly partitionKey: string | null
  /** 0 to 1023. */
  readonly bucket: number
  /** 0, or in a queue on the ring 1 + the bucket of its key. */
  readonly line: number
  /** Random. Distinguishes two jobs that got the same id before and after a failover. */
  readonly salt: string
  /** JSON text. */
  readonly metadata: string | null
  /** Of an ordered queue: the place of the first job of its run. Null in any other. Undefined: the completion has to look. */
  readonly runFrom: string | null | undefined
  /** Of an ordered queue: the jobs that follow it in its key and were claimed with it. They start after it, in this order. */
  readonly run: readonly ClaimedJob[] | undefined
}
