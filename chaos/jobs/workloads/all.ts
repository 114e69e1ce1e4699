import type { Workload } from '../workload.ts'
import { completeWithin } from './complete-within.ts'
import { effects } from './effects.ts'
import { expiring } from './expiring.ts'
import { forgotten } from './forgotten.ts'
import { inTransaction } from './in-transaction.ts'
import { keyed } from './keyed.ts'
import { large } from './large.ts'
import { manyQueues } from './many-queues.ts'
import { ordered } from './ordered.ts'
import { plain } from './plain.ts'
import { ring } from './ring.ts'
import { steering } from './steering.ts'

/** In the order in which shares are dealt: a new one goes to the end, so that older seeds change less. */
export const WORKLOADS: readonly Workload[] = [
  plain,
  keyed,
  inTransaction,
  completeWithin,
  effects,
  steering,
  manyQueues,
  large,
  forgotten,
  expiring,
  ordered,
  ring,
]

const byName = new Map(WORKLOADS.map((workload) => [workload.name, workload]))

export function workloadOf(name: string): Workload {
  const found = byName.get(name)
  if (found === undefined) throw new Error(`there is no workload ${name}`)
  return found
}
