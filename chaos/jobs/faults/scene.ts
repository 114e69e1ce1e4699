import type { Crew, Victim } from '../../common/crew.ts'
import type { Witness } from '../../common/witness.ts'
import type { World } from '../world.ts'

export type Role = 'worker' | 'hand' | 'producer'

/** The parts that faults can reach. */
export interface Scene {
  readonly world: World
  readonly crew: Crew
  readonly witness: Witness
  readonly signal: AbortSignal
  readonly seats: Readonly<Record<Role, readonly number[]>>
  nameOf(process: number): string
  /** Notes a signal that was sent. */
  struck(victim: Victim, signal: string): void
  /** Running jobs, by the label of the worker that has them: its name, or host and pid for claims by hand. */
  heldBy(): Promise<Map<string, number>>
  /** What is paused now. */
  readonly paused: Set<string>
  /** Ends early when the run does. */
  wait(ms: number): Promise<void>
}
