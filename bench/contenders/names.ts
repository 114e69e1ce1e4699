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

export type ContenderName = (typeof CONTENDERS)[number]
