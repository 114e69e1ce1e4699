/**
 * The plan of a run, made of its seed and its length alone: which events are published when and what becomes of their
 * transactions, which of them are poison, when a day passes, and which faults happen. The machine decides the interleaving, so a
 * seed repeats the plan, and usually its findings.
 */
import { randomFrom, type SeededRandom } from '../../tools/seeded-random.ts'
import { dealt, deckOf, type FaultKind, type PlannedFault } from '../common/deck.ts'

/** The destinations, and what each does with the key of an event that it cannot be sent. */
export const POLICIES = { ledger: 'skip', stock: 'block', audit: 'park' } as const
export type DestinationName = keyof typeof POLICIES
export const DESTINATION_NAMES = Object.keys(POLICIES) as DestinationName[]

export const PRODUCERS = 2

export interface PlannedEvent {
  readonly key: string
  /** Every transport refuses it for good. */
  readonly poison: boolean
}

export interface Step {
  readonly name: string
  readonly atMs: number
  readonly producer: number
  /** One event by itself or from SQL, or several by one call. */
  readonly via: 'publish' | 'publishMany' | 'sql'
  /** die: the producer kills itself before it commits. */
  readonly fate: 'commit' | 'rollback' | 'die'
  /** How long the transaction stays open after the events are published. */
  readonly holdMs: number
  readonly events: readonly PlannedEvent[]
}

export interface Plan {
  readonly seed: number
  readonly durationMs: number
  readonly steps: readonly Step[]
  readonly faults: readonly PlannedFault[]
}

export interface PlanOptions {
  /** Only these faults, and passing days. */
  readonly faults?: readonly string[]
}

/** Statements whose reply is cut off: they are carried out, and the process that sent them does not learn it. */
export const CUT_REPLIES = {
  publish: 'event.publish',
  complete: /job\.(complete|turn)/,
  receive: 'inbox.receive',
  commit: /Q.{4}commit\0/is,
} as const

export const FAULTS: readonly FaultKind[] = [
  { name: 'SIGKILL relay', cards: 3 },
  { name: 'SIGSTOP relay', cards: 2, ms: [1_000, 5_000] },
  { name: 'SIGTERM relay', cards: 1 },
  { name: 'SIGKILL consumer', cards: 3 },
  { name: 'SIGSTOP consumer', cards: 2, ms: [1_000, 5_000] },
  { name: 'SIGTERM consumer', cards: 1 },
  { name: 'SIGKILL producer', cards: 1 },
  { name: 'SIGSTOP producer', cards: 1, ms: [500, 2_500] },
  { name: 'SIGKILL broker', cards: 2, ms: [200, 1_500] },
  { name: 'cut broker connections', cards: 1 },
  { name: 'lose acknowledgements', cards: 2, ms: [150, 500] },
  { name: 'freeze broker', cards: 1, ms: [500, 2_500] },
  { name: 'cut database connections', cards: 1 },
  { name: 'freeze database', cards: 1, ms: [500, 2_500] },
  { name: 'crash database', cards: 1 },
  ...Object.keys(CUT_REPLIES).map((of) => ({ name: `cut reply of ${of}`, cards: 1 })),
]
/** At fixed moments: each is a day later for the database that publishes, and its retention has a turn. */
export const DAY_PASSES = 'a day passes'
const DAYS = [0.15, 0.3, 0.45, 0.7, 0.85]

const STEPS_PER_SECOND = 12
const FAULT_EVERY_MS = 1_700
const KEYS = 20
/** They alone have poison events, from this part of the run on: retention keeps the days of dead letters, and drops those before. */
const POISON_KEYS = 4
const POISON_FROM = 0.5
const POISON_CHANCE = 0.2
const HOLD_MS = 60

export function planOf(seed: number, durationMs: number, { faults }: PlanOptions = {}): Plan {
  const random = randomFrom(`${seed} outbox faults`)
  const deck = deckOf(FAULTS, random, faults)
  const days = DAYS.map((part) => ({ fault: DAY_PASSES, pick: 0, forMs: 0, atMs: Math.round(part * durationMs) }))
  const dealtFaults = dealt(deck, random, { durationMs, everyMs: FAULT_EVERY_MS })
  return {
    seed,
    durationMs,
    steps: stepsOf(seed, durationMs),
    faults: [...days, ...dealtFaults].sort((one, other) => one.atMs - other.atMs),
  }
}

function stepsOf(seed: number, durationMs: number): Step[] {
  const random = randomFrom(`${seed} outbox steps`)
  const count = Math.ceil((durationMs / 1_000) * STEPS_PER_SECOND)
  // One of each producer dies, and the first event of a poison key in the second half is poison.
  const dying = new Set([0.3, 0.6].map((part) => Math.floor(part * count)))
  let hasPoison = false
  return Array.from({ length: count }, (_, turn): Step => {
    const isLate = turn >= count * POISON_FROM
    const via = viaOf(random())
    const events = Array.from({ length: via === 'publishMany' ? 2 + Math.floor(random() * 4) : 1 }, () => {
      const key = keyOf(random)
      const poison = isLate && key.startsWith('poison') && (!hasPoison || random() < POISON_CHANCE)
      hasPoison ||= poison
      return { key, poison }
    })
    const luck = random()
    return {
      name: `e${turn + 1}`,
      atMs: Math.round((turn / count) * durationMs),
      producer: dying.has(turn) ? [...dying].indexOf(turn) % PRODUCERS : Math.floor(random() * PRODUCERS),
      via,
      fate: dying.has(turn) ? 'die' : luck < 0.08 ? 'rollback' : 'commit',
      holdMs: Math.round(random() * HOLD_MS),
      events,
    }
  })
}

function viaOf(luck: number): Step['via'] {
  return luck < 0.5 ? 'publish' : luck < 0.7 ? 'sql' : 'publishMany'
}

/** Some keys are busier than others. */
function keyOf(random: SeededRandom): string {
  const number = Math.floor(random() ** 2 * (KEYS + POISON_KEYS))
  return number % 6 === 5 ? `poison:${(number - 5) / 6}` : `order:${number}`
}
