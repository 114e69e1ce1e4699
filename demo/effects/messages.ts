/** The messages between a worker process and the demo. */

/** How a worker handles a message about a row. */
export type Way = 'naive' | 'one UPDATE' | 'two phases'

export type ToWorker =
  /** The first. */
  | { readonly type: 'open'; readonly databaseUrl: string }
  | { readonly type: 'deliver'; readonly delivery: number; readonly id: number; readonly way: Way }
  /** From now on, reclaim stuck rows. */
  | { readonly type: 'recover' }
  | { readonly type: 'race'; readonly round: number; readonly guarded: boolean }
  | { readonly type: 'report pool' }

export type FromWorker =
  | { readonly type: 'ready' }
  | { readonly type: 'acknowledge'; readonly delivery: number }
  /** These rows are ready again: they need a message. */
  | { readonly type: 'publish'; readonly ids: readonly number[] }
  | ({ readonly type: 'pool' } & PoolReport)
  | { readonly type: 'raced' }

/** Connections of a pool in use, and callers that wait for one. */
export interface PoolReport {
  readonly busy: number
  readonly waiting: number
}
