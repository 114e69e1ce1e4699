/**
 * The plan of a run, made of its seed and its length alone: when each producer enqueues which work, and which faults happen.
 * The machine decides the interleaving, so a seed repeats the plan, and usually its findings.
 */
import { randomFrom } from '../../tools/seeded-random.ts'
import { dealt, deckOf, type PlannedFault } from '../common/deck.ts'
import { FAULTS } from './faults/deck.ts'
import type { Script, Workload } from './workload.ts'
import { WORKLOADS } from './workloads/all.ts'

export const PRODUCERS = 2

export interface Step {
  readonly atMs: number
  readonly w: string
  readonly workload: string
  readonly producer: number
  readonly script: Script
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
  readonly stepsPerSecond?: number
  /** How long a fault lasts that lasts. */
  readonly faultMs?: readonly [number, number]
  /** Handlers take so long at least. */
  readonly handlerMs?: number
}

const STEPS_PER_SECOND = 45
const FAULT_EVERY_MS = 1_700

export function planOf(seed: number, durationMs: number, options: PlanOptions = {}): Plan {
  const { faults, stepsPerSecond = STEPS_PER_SECOND, handlerMs = 0 } = options
  const random = randomFrom(`${seed} faults`)
  const deck = deckOf(FAULTS, random, faults, options.faultMs)
  return {
    seed,
    durationMs,
    steps: stepsOf(seed, durationMs, Math.ceil((durationMs / 1_000) * stepsPerSecond)).map((step) =>
      withHandlerMs(step, handlerMs),
    ),
    faults: dealt(deck, random, { durationMs, everyMs: FAULT_EVERY_MS }),
  }
}

function stepsOf(seed: number, durationMs: number, count: number): Step[] {
  const random = randomFrom(`${seed} steps`)
  const total = WORKLOADS.reduce((sum, { share }) => sum + share, 0)
  const steps: Step[] = []
  for (let turn = 0; turn < count; turn++) {
    const workload = chosen(random() * total)
    const { name } = workload
    const producer = Math.floor(random() * PRODUCERS)
    steps.push({
      atMs: Math.round((turn / count) * durationMs),
      w: `${name}-${turn + 1}`,
      workload: name,
      producer,
      script: workload.plan(random),
    })
  }
  return steps
}

function withHandlerMs(step: Step, least: number): Step {
  const { ms } = step.script
  return typeof ms === 'number' && ms < least ? { ...step, script: { ...step.script, ms: least } } : step
}

function chosen(luck: number): Workload {
  let passed = 0
  return WORKLOADS.find(({ share }) => {
    passed += share
    return luck < passed
  })!
}
