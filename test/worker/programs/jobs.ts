// The kinds of jobs that the worker programs handle; tests enqueue them.
import { kind } from '../../../src/index.ts'

export type Act =
  /** Returns at once. */
  | 'nothing'
  /** Returns on the test's command, also after an abort. */
  | 'wait'
  /** The first time: blocks the event loop until the test's command. */
  | 'block once'
  /** The first time: throws when its signal is aborted. */
  | 'heed once'
  /** The first time: returns when its signal is aborted, as if nothing had happened. */
  | 'defy once'
  /** Kills its process. */
  | 'die'
  /** Kills its process the first time, then does nothing. */
  | 'die once'
  /** The same, after its effect. */
  | 'effect, die once'
  /** An effect at the provider that happens once; the first time it kills its process at the given step. */
  | 'once'
  /** The same in a transaction of the database. */
  | 'once in a transaction'
  /** Throws the first time. */
  | 'fail once'
  /** Enqueues a job that does nothing, in half an hour. */
  | 'enqueue for later'

export type Step = 'before begin' | 'after begin' | 'after effect' | 'before commit' | 'after done'

export interface Work {
  readonly act: Act
  readonly n?: number
  readonly once?: { readonly dieAt: Step; readonly provider?: string; readonly ifUnknown?: 'stop' | 'retry' }
}

export function workOf(name: string) {
  return kind<Work>(name, { maxAttempts: 3, backoff: { first: '45m', max: '45m' } })
}

/** The default handlers of a worker program. */
export const work = workOf('work')
