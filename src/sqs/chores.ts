/**
 * Chores beside a consumer, such as a table's recovery. Every consumer does them, as there is no worker of ours here to take
 * turns with: a chore is safe to do by many, and what one has taken another one passes over.
 */
import type { Pool } from 'pg'
import { durationMs } from '../core/duration.ts'
import { DeadlineError } from '../core/errors.ts'
import { withDeadline } from '../core/timer.ts'
import type { Chore } from '../db/chore.ts'
import { Loop } from '../runtime/loop.ts'
import type { Events } from './events.ts'

const ENDS_WITHIN_MS = 3_000

export class Chores {
  readonly #loops: readonly Loop[]
  readonly #stopping = new AbortController()

  constructor(chores: readonly Chore[], pool: Pool, events: Events) {
    this.#loops = chores.map((chore) => {
      const everyMs = durationMs('chore.every', chore.every)
      let isFirst = true
      const tick = async () => {
        // Not all at once when a fleet is deployed.
        if (isFirst) {
          isFirst = false
          return Math.random() * everyMs
        }
        events.choreDid(chore.name, await chore.run(pool, this.#stopping.signal))
        return everyMs
      }
      return new Loop(tick, { problem: (error) => events.choreFailed(chore.name, error) })
    })
  }

  start(): void {
    for (const loop of this.#loops) loop.start()
  }

  /** One that waits for somebody else may wait for ever. It is safe to leave it, as it is safe to do it twice. */
  async stop(): Promise<void> {
    this.#stopping.abort()
    const late = () => new DeadlineError('A chore', ENDS_WITHIN_MS)
    await withDeadline(Promise.all(this.#loops.map((loop) => loop.stop())), ENDS_WITHIN_MS, late).catch(() => {})
  }
}
