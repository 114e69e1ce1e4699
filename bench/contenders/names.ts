/** Apart from the contenders themselves: code that only names them needs none of their packages. */

/** All that take part in every scenario. */
export const QUEUES = ['leasehold', 'leasehold-not-kept', 'graphile-worker', 'pg-boss', 'bullmq'] as const

/** No queues: there is nothing to wait on, to announce or to limit. */
export const FLOORS = ['floor', 'floor-not-kept'] as const

/** Queues that keep the order of each key: the scenario order only. */
export const ORDERED = ['leasehold-ordered', 'graphile-worker-ordered', 'pg-boss-ordered'] as const

/** A queue that is fair to its keys: the scenario order only. */
export const FAIR = ['leasehold-fair'] as const

/** Jobs with keys, with the ring and without: the scenario fleet only. */
export const FLEET = ['leasehold-keyed', 'leasehold-ring', 'leasehold-ordered-ring'] as const

/** The last of all takes part where jobs trickle in: its local queue has most to lose there. */
export const CONTENDERS = [
  ...QUEUES,
  ...FLOORS,
  ...ORDERED,
  ...FAIR,
  ...FLEET,
  'graphile-worker-no-local-queue',
] as const

export type ContenderName = (typeof CONTENDERS)[number]
