/** The faults of a run. Each is a card with its numbers; faults/*.ts carry them out. */
import type { FaultKind } from '../../common/deck.ts'

/** Statements whose reply is cut off: they are carried out, and the process that sent them does not learn it. */
export const CUT_REPLIES = {
  claim: 'job.claim',
  complete: 'job.complete',
  turn: 'job.turn',
  settle: 'job.settle',
  enqueue: 'job.enqueue',
  renew: 'claim.renew',
  commit: /Q.{4}commit\0/is,
} as const

export const FAULTS: readonly FaultKind[] = [
  { name: 'SIGKILL worker', cards: 3 },
  { name: 'SIGKILL hand', cards: 1 },
  { name: 'SIGKILL producer', cards: 1 },
  { name: 'SIGSTOP worker', cards: 2, ms: [1_000, 5_000] },
  { name: 'SIGTERM worker', cards: 1 },
  { name: 'rolling restart', cards: 1 },
  { name: 'cut connections', cards: 1 },
  { name: 'freeze', cards: 1, ms: [500, 3_000] },
  { name: 'refuse', cards: 1, ms: [300, 2_000] },
  { name: 'delay replies', cards: 1, ms: [1_000, 3_000] },
  ...Object.keys(CUT_REPLIES).map((of) => ({ name: `cut reply of ${of}`, cards: 1 })),
  { name: 'terminate backends', cards: 2 },
  { name: 'crash', cards: 1 },
  { name: 'failover', cards: 1, ms: [500, 1_500] },
  { name: 'lock table briefly', cards: 1, ms: [300, 1_200] },
  // Longer than a lease, and than a worker waits for a statement.
  { name: 'lock table for long', cards: 1, ms: [5_500, 6_500] },
  { name: 'read only', cards: 1, ms: [500, 2_500] },
  { name: 'no connection left', cards: 1, ms: [500, 2_500] },
  { name: 'hold a snapshot', cards: 1, ms: [3_000, 8_000] },
  { name: 'pause', cards: 2, ms: [1_500, 4_000] },
  { name: 'cancel', cards: 2 },
  { name: 'redrive', cards: 2 },
]
