/** Opaque: compare it, store it, hand it back. */
export type JobId = string & { readonly __brand: 'JobId' }

/** Made by the worker, so that it can name a claim whose reply was lost. */
export type ClaimId = string & { readonly __brand: 'ClaimId' }

export const STATUSES = ['pending', 'processing', 'completed', 'dead_letter', 'cancelled'] as const
export type Status = (typeof STATUSES)[number]

/** Who claims: a fresh UUID each boot, and a label for people, such as host:pid. */
export interface Worker {
  readonly id: string
  readonly label: string
}

/** The fence. Every write about a claimed job carries it; one from an older claim changes nothing. */
export interface Lease {
  readonly jobId: JobId
  /** Rises with each claim, for the life of the job. */
  readonly generation: number
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
  /** As the database prints it: a Date would lose its microseconds. */
  readonly availableAt: string
  readonly createdAt: string
  readonly partitionKey: string | null
  /** JSON text, as are the tags. */
  readonly metadata: string | null
  readonly tags: string | null
}
