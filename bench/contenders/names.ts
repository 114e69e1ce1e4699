/** Apart from the contenders themselves: whoever only names them needs none of their packages. */

export const CONTENDERS = [
  'leasehold',
  'leasehold-not-kept',
  'graphile-worker',
  'pg-boss',
  'bullmq',
  'floor',
  'floor-not-kept',
] as const

/** All but the floor, which is no queue: there is nothing to wait on, to announce or to limit. */
export const QUEUES = ['leasehold', 'leasehold-not-kept', 'graphile-worker', 'pg-boss', 'bullmq'] as const

export type ContenderName = (typeof CONTENDERS)[number]
