/** What every scenario is given. */

import type { BenchServer } from '../server.ts'
import type { Results } from './results.ts'

export interface Bench {
  readonly server: BenchServer
  readonly sizes: Sizes
  readonly results: Results
  say(text: string): void
}

export interface Sizes {
  readonly rounds: number
  /** With and without a burden, where a bar is set: the machine's noise is larger than most of what is measured. */
  readonly pairs: number
  /** Jobs claimed at once, in drain and held-snapshot. */
  readonly batches: readonly number[]
  /** Drain, steady and held-snapshot. */
  readonly jobs: number
  readonly hotShareJobs: number
  /** Held-snapshot, for the designs that suffer. */
  readonly melting: number
  /** Drained beside a burden. */
  readonly beside: number
  readonly backlog: number
  readonly scheduled: number
  readonly inFlight: number
  readonly otherKind: number
}

export const FULL: Sizes = {
  rounds: 3,
  pairs: 5,
  batches: [500, 100],
  jobs: 100_000,
  hotShareJobs: 30_000,
  melting: 50_000,
  beside: 50_000,
  backlog: 1_000_000,
  scheduled: 1_000_000,
  inFlight: 20_000,
  otherKind: 300_000,
}

/** Proves that everything runs; its figures mean little. */
export const QUICK: Sizes = {
  rounds: 1,
  pairs: 1,
  batches: [100],
  jobs: 5_000,
  hotShareJobs: 5_000,
  melting: 5_000,
  beside: 5_000,
  backlog: 50_000,
  scheduled: 50_000,
  inFlight: 5_000,
  otherKind: 20_000,
}
