import type { Victim } from '../../common/crew.ts'
import type { Scene as CommonScene } from '../../common/drive.ts'
import type { World } from '../world.ts'

export type Role = 'worker' | 'hand' | 'producer'

/** The parts that faults can reach. */
export interface Scene extends CommonScene<World, Role> {
  /** Notes a signal that was sent. */
  struck(victim: Victim, signal: string): void
  /** Running jobs, by the label of the worker that has them: its name, or host and pid for claims by hand. */
  heldBy(): Promise<Map<string, number>>
  /** What is paused now. */
  readonly paused: Set<string>
}
