/** The messages between a worker process and the demo. */

export type FromWorker =
  /** Its program is loaded, and it waits for its start. */
  | { readonly type: 'ready' }
  /** It looks for jobs in these buckets from now on, or no longer. */
  | { readonly type: 'gained' | 'lost'; readonly buckets: readonly number[] }
  /** A slow handler is in the middle of a job. */
  | { readonly type: 'busy' }
  /** A handler wanted to commit, but its lease was over: its transaction was rolled back. */
  | { readonly type: 'refused' }

/** Join the fleet; or: from now on handlers are slow. */
export type ToWorker = { readonly type: 'join' | 'slow' }
