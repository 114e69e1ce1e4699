import { monotonicMs } from '../core/timer.ts'
import type { Lane } from '../db/lane.ts'
import type { ChoreSchedule } from './chores.ts'
import { addDuties, takeDuties } from './duty.ts'

/** Beside the duties of our own. */
const PREFIX = 'chore: '

/** By the table of duties, which all workers of a schema share. */
export class SharedSchedule implements ChoreSchedule {
  readonly #lane: Lane
  readonly #known = new Set<string>()

  constructor(lane: Lane) {
    this.#lane = lane
  }

  async take(everyMs: Readonly<Record<string, number>>): Promise<{ taken: string[]; nextInMs: number }> {
    const duties = Object.fromEntries(Object.entries(everyMs).map(([name, ms]) => [`${PREFIX}${name}`, ms]))
    const unknown = Object.keys(duties).filter((duty) => !this.#known.has(duty))
    if (unknown.length > 0) await addDuties(this.#lane, unknown)
    for (const duty of unknown) this.#known.add(duty)
    const { taken, nextInMs } = await takeDuties(this.#lane, duties)
    return { taken: taken.map((duty) => duty.slice(PREFIX.length)), nextInMs }
  }
}

/** By this process's clock alone. */
export class OwnSchedule implements ChoreSchedule {
  readonly #dueAt = new Map<string, number>()

  async take(everyMs: Readonly<Record<string, number>>): Promise<{ taken: string[]; nextInMs: number }> {
    const now = monotonicMs()
    const taken: string[] = []
    let nextInMs = Number.POSITIVE_INFINITY
    for (const [name, ms] of Object.entries(everyMs)) {
      // Not all at once when a fleet is deployed.
      let dueAt = this.#dueAt.get(name) ?? now + Math.random() * ms
      if (dueAt <= now) {
        taken.push(name)
        dueAt = now + ms
      }
      this.#dueAt.set(name, dueAt)
      nextInMs = Math.min(nextInMs, dueAt - now)
    }
    return { taken, nextInMs }
  }
}
