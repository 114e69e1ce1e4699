import type { Lane } from '../db/lane.ts'
import type { OwnedBuckets } from '../jobs/claim.ts'
import type { Worker } from '../jobs/job.ts'
import type { Line } from '../jobs/lines.ts'
import type { LoopEvents } from '../runtime/loop.ts'
import type { Runner } from './runner.ts'
import type { Slots } from './slots.ts'
import type { Turns } from './turns.ts'

/** stopped: until stop() is called. empty: until nothing is left to claim. once: one batch. */
export type Until = 'stopped' | 'empty' | 'once'

export interface FetcherOptions {
  readonly lane: Lane
  readonly turns: Turns
  readonly worker: Worker
  readonly leaseMs: number
  readonly pollMs: number
  readonly concurrency: number
  readonly kinds: readonly string[]
  readonly queues: readonly string[]
  readonly slots: Slots
  readonly runner: Runner
  readonly until: Until
  /** Where to claim from, if a queue is on the ring. */
  readonly ring: ClaimedLines
  /** Makes this worker known to the registry. Resolves before the first claim is sent. */
  register(): Promise<unknown>
  /** Nothing is left to claim, suspects included, and nothing is held. Only of a worker that does not run until it is stopped. */
  onExhausted(): void
  readonly events: LoopEvents
}

/** Undefined in both: no queue is on the ring. */
export interface ClaimedLines {
  readonly lines: readonly Line[] | undefined
  /** Whose suspects to claim. */
  readonly owned: OwnedBuckets | undefined
}

/** What the last claim has shown. */
export interface LastClaim {
  readonly more: boolean
  readonly nothingElse: boolean
  readonly everyKind: boolean
  readonly queues: readonly string[]
  readonly limit: number
}

export type ClaimMode =
  | { readonly for: 'everyone' }
  | { readonly for: 'suspects'; readonly since: number; working: boolean }
