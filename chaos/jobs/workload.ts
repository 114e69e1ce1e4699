/**
 * One kind of work, from its plan to its rules. To add one: a file in workloads/ that exports a Workload, and a line in
 * workloads/all.ts. Files of workloads import only types from the library, so that the checker can read them: producers and
 * handlers receive the library through their arguments.
 */

import type pg from 'pg'
import type { QueueOptions } from '../../src/core/queue.ts'
import type { Once } from '../../src/effects/once.ts'
import type * as library from '../../src/index.ts'
import type { EnqueueOptions, KindOptions, Leasehold } from '../../src/index.ts'
import type { Conflicting } from '../../src/jobs/enqueue.ts'
import type { SeededRandom } from '../../tools/seeded-random.ts'
import type { Finding } from '../common/finding.ts'
import type { History, Work } from './history.ts'

/** The planned part of a piece of work: plain JSON, and the input of its job. */
export type Script = Readonly<Record<string, unknown>>

export interface Input extends Script {
  /** The name of the work, unique in the run. */
  readonly w: string
}

export interface Workload {
  readonly name: string
  /** Of a hundred pieces of work, about so many. */
  readonly share: number
  readonly kinds: Readonly<Record<string, Omit<KindOptions, 'input'>>>
  /** Queues that are configured before the run. */
  readonly queues?: Readonly<Record<string, QueueOptions>>
  /** Which kind a piece of work is. The first one unless given. */
  kindOf?(script: Script): string
  /** Tables for business rows, in the schema `chaos`. */
  readonly tables?: string
  plan(random: SeededRandom): Script
  /** In a producer. Unless given: the job is enqueued once with these options. */
  produce?(scene: ProducerScene): Promise<void>
  options?(input: Input): EnqueueOptions
  /** It is produced again until the reply is known: it has a key. */
  readonly repeats?: boolean
  /** Runs in a worker. Its errors are those of a handler. */
  handle(run: Run): Promise<unknown>
  /** How a piece of work may end. `completed`, or for a dead letter its reason, or `cancelled`. */
  ends(work: Work): readonly string[]
  /** A completed job leaves no row. */
  readonly forgets?: boolean
  /** Further rules. */
  check?(history: History, works: readonly Work[]): Finding[]
}

export interface ProducerScene {
  readonly input: Input
  readonly leasehold: Leasehold
  readonly pool: pg.Pool
  /** Whether this is a repeat: the process was killed or failed after it had asked the first time. */
  readonly isRepeat: boolean
  enqueue(input: Input, options?: EnqueueOptions): Promise<library.Enqueued | Conflicting>
  /** Writes to the witness file. */
  note(e: string, details?: Script): void
}

/** A handler at work, in a worker or by hand. */
export interface Run {
  readonly input: Input
  readonly id: string
  readonly generation: number
  readonly attempt: number
  readonly signal: AbortSignal
  readonly once: Once
  readonly pool: pg.Pool
  readonly library: typeof library
  complete(tx: pg.ClientBase, result?: unknown): Promise<void>
  /** Writes to the witness file. */
  note(e: string, details?: Script): void
  /** Works for so long, unless its signal is aborted. */
  rest(ms: number): Promise<void>
  /** A number from 0 to below 1, the same for the same work and generation. */
  readonly luck: number
}
