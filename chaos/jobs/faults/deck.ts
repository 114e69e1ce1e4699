/** The faults of a run. Each is a card with its numbers; faults/*.ts carry them out. */
import type { SeededRandom } from '../../../tools/seeded-random.ts'

/** Statements whose reply is cut off: they are carried out, and the process that sent them does not learn of it. */
export const CUT_REPLIES = {
  claim: 'job.claim',
  complete: 'job.complete',
  settle: 'job.settle',
  enqueue: 'job.enqueue',
  renew: 'claim.renew',
  commit: /Q.{4}commit\0/is,
} as const

export interface FaultCard {
  readonly fault: string
  /** Which seat, table, statement: whatever the fault chooses from. */
  readonly pick: number
  /** How long it lasts, if it does. */
  readonly forMs: number
}

interface FaultKind {
  readonly name: string
  /** In a deck. */
  readonly cards: number
  readonly ms?: readonly [least: number, most: number]
}

export const FAULTS: readonly FaultKind[] = [
  { name: 'SIGKILL worker', cards: 3 },
  { name: 'SIGKILL hand', cards: 1 },
  { name: 'SIGKILL producer', cards: 1 },
  { name: 'SIGSTOP worker', cards: 2, ms: [1_000, 5_000] },
  { name: 'SIGTERM worker', cards: 1 },
  { name: 'rolling restart', cards: 1 },
]

/** These alone, or all. */
export function deckOf(random: SeededRandom, only?: readonly string[]): (() => FaultCard)[] {
  const kinds = FAULTS.filter(({ name }) => only === undefined || only.includes(name))
  return kinds.flatMap(({ name, cards, ms = [0, 0] }) =>
    Array.from({ length: cards }, () => () => ({
      fault: name,
      pick: random(),
      forMs: Math.round(ms[0] + random() * (ms[1] - ms[0])),
    })),
  )
}
