/**
 * The plan of a run, made of its seed and its length alone: which runs of workflows start when, with which program, what becomes of
 * their starts, what is sent to them, and which faults happen. The machine decides the interleaving.
 */
import { randomFrom, type SeededRandom } from '../../tools/seeded-random.ts'
import { dealt, deckOf, type FaultKind, type PlannedFault } from '../common/deck.ts'
import { Grower, leavesOf, type Program } from './program.ts'

export const WORKERS = 4
export const STARTERS = 2

/** What the starter does to a run, one after the other. */
export type Action =
  | {
      readonly act: 'signal'
      readonly afterMs: number
      readonly name: string
      /** Which of this name, from 1. */
      readonly i: number
      /** own: a transaction of its own. */
      readonly via: 'with start' | 'own' | 'tx' | 'sql'
      /** Sent again, with the same idempotency key. */
      readonly twice: boolean
    }
  /** A signal without a key, for run.any(): sent at most once. */
  | { readonly act: 'mail'; readonly afterMs: number; readonly name: string }
  /** A signal in a transaction that is rolled back. */
  | { readonly act: 'undone signal'; readonly afterMs: number; readonly name: string }
  | { readonly act: 'cancel' | 'pause' | 'resume' | 'start again' | 'start other'; readonly afterMs: number }

export interface Step {
  /** The id of the run. */
  readonly name: string
  readonly atMs: number
  readonly starter: number
  /** die: the starter kills itself before it commits. */
  readonly fate: 'commit' | 'rollback' | 'die'
  readonly holdMs: number
  readonly program: Program
  readonly actions: readonly Action[]
}

export interface Plan {
  readonly seed: number
  readonly durationMs: number
  readonly steps: readonly Step[]
  readonly faults: readonly PlannedFault[]
}

export interface PlanOptions {
  /** Only these faults. */
  readonly faults?: readonly string[]
}

/** Statements of workers whose reply is cut off: they are carried out, and the worker does not learn it. */
export const WORKERS_REPLIES = {
  'step.record': 'step.record',
  'step.load': 'step.load',
  'step.start_child': 'step.start_child',
  claim: /job\.(claim|turn)/,
  completion: /job\.(complete|turn)/,
  park: 'job.settle',
  'commit of a tx step': /Q.{4}commit\0/is,
} as const
export const STARTERS_REPLIES = {
  start: 'job.enqueue',
  signal: 'signal.send',
  'commit of a start': /Q.{4}commit\0/is,
} as const
/**
 * Statements of workers that are held on their way, until the lease is over and another worker has the run. The record is that of a slow
 * step, so that it arrives while the other worker executes the step again.
 */
export const HELD = { 'step.record': /step\.record.*\bslow/s, park: /job\.settle/ } as const

const LONGER_THAN_LEASE = [3_000, 5_000] as const

export const FAULTS: readonly FaultKind[] = [
  { name: 'SIGKILL worker', cards: 3 },
  { name: 'SIGSTOP worker', cards: 2, ms: LONGER_THAN_LEASE },
  { name: 'SIGTERM worker', cards: 1 },
  { name: 'SIGKILL starter', cards: 1 },
  { name: 'cut connections of a worker', cards: 1 },
  { name: 'freeze a worker', cards: 1, ms: LONGER_THAN_LEASE },
  ...Object.keys(HELD).map((of) => ({ name: `hold ${of}`, cards: 1, ms: [3_200, 4_200] as const })),
  { name: 'cut all connections', cards: 1 },
  { name: 'freeze database', cards: 1, ms: [500, 2_500] },
  { name: 'crash database', cards: 1 },
  ...Object.keys(WORKERS_REPLIES).map((of) => ({ name: `cut reply of ${of}`, cards: 1 })),
  ...Object.keys(STARTERS_REPLIES).map((of) => ({ name: `cut reply of ${of}`, cards: 1 })),
]

const STEPS_PER_SECOND = 6
const FAULT_EVERY_MS = 2_000
const HOLD_MS = 40

export function planOf(seed: number, durationMs: number, { faults }: PlanOptions = {}): Plan {
  const random = randomFrom(`${seed} workflow faults`)
  const deck = deckOf(FAULTS, random, faults)
  return {
    seed,
    durationMs,
    steps: stepsOf(seed, durationMs),
    faults: dealt(deck, random, { durationMs, everyMs: FAULT_EVERY_MS }),
  }
}

function stepsOf(seed: number, durationMs: number): Step[] {
  const random = randomFrom(`${seed} workflow steps`)
  const count = Math.ceil((durationMs / 1_000) * STEPS_PER_SECOND)
  const grower = new Grower(random)
  // One of each starter dies.
  const dying = new Set([0.3, 0.6].map((part) => Math.floor(part * count)))
  return Array.from({ length: count }, (_, turn): Step => {
    // Every second one is of a shape that must be there.
    const shape = turn % 2 === 0 ? (turn / 2) % Grower.SHAPES : Grower.SHAPES
    const program = grower.program(shape)
    const luck = random()
    const fate = dying.has(turn) ? 'die' : luck < 0.06 && shape > 1 ? 'rollback' : 'commit'
    return {
      name: `r${turn + 1}`,
      atMs: Math.round((turn / count) * durationMs),
      starter: dying.has(turn) ? [...dying].indexOf(turn) % STARTERS : Math.floor(random() * STARTERS),
      fate,
      holdMs: Math.round(random() * HOLD_MS),
      program,
      actions: fate === 'commit' ? actionsOf(program, shape, random) : [],
    }
  })
}

/** Shape 5 waits for a signal that never comes, until it is cancelled. */
const WAITS_FOR_EVER = 5

export function waitsForEver({ actions, program }: Pick<Step, 'actions' | 'program'>): boolean {
  const isSent = (name: string) => actions.some((action) => action.act === 'signal' && action.name === name)
  return leavesOf(program).some(({ leaf }) => leaf.do === 'signal' && !isSent(leaf.name))
}

function actionsOf(program: Program, shape: number, random: SeededRandom): Action[] {
  const actions: Action[] = []
  for (const { leaf, times } of leavesOf(program)) {
    if (leaf.do === 'signal' && shape !== WAITS_FOR_EVER) {
      // One after the other, from before the run waits until long after.
      let afterMs = Math.round(random() * 1_500)
      for (let i = 1; i <= times; i++) {
        const luck = random()
        const via = luck < 0.15 && i === 1 ? 'with start' : luck < 0.45 ? 'own' : luck < 0.8 ? 'tx' : 'sql'
        actions.push({ act: 'signal', afterMs, name: leaf.name, i, via, twice: random() < 0.25 })
        afterMs += Math.round(random() * 350)
      }
    }
    if (leaf.do === 'any' && random() < 0.7) {
      actions.push({ act: 'mail', afterMs: Math.round(random() * 1.6 * leaf.ms), name: leaf.name })
    }
    if ((leaf.do === 'any' || leaf.do === 'signal') && random() < 0.2) {
      actions.push({ act: 'undone signal', afterMs: Math.round(random() * 500), name: leaf.name })
    }
  }
  const later = (most: number) => Math.round(random() * most)
  if (shape === WAITS_FOR_EVER || random() < 0.1) actions.push({ act: 'cancel', afterMs: later(2_000) })
  if (random() < 0.1) {
    const pausedAt = later(1_500)
    actions.push({ act: 'pause', afterMs: pausedAt }, { act: 'resume', afterMs: pausedAt + 200 + later(1_000) })
  }
  if (random() < 0.2) actions.push({ act: 'start again', afterMs: later(2_000) })
  if (random() < 0.15) actions.push({ act: 'start other', afterMs: later(2_000) })
  // Those of one moment in the order given: signals of a name stay in theirs.
  return actions.sort((one, other) => one.afterMs - other.afterMs)
}
