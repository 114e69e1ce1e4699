/**
 * Runs the user's chores, such as the recovery of a status table, apart from everything else: a chore may wait for another
 * service, and no sweep and no other chore waits with it.
 *
 * A schedule decides which chores this process runs now. Workers share one in the database, so each interval falls to one worker of
 * all. Consumers have no schema of ours and follow their own clock: every one runs every chore, which is safe.
 */
import type { Pool } from 'pg'
import { durationMs } from '../core/duration.ts'
import { DeadlineError, TimedOutError } from '../core/errors.ts'
import { monotonicMs, withDeadline } from '../core/timer.ts'
import type { Chore } from './chore.ts'
import { Loop } from './loop.ts'

const SOONEST_MS = 50
const ENDS_WITHIN_MS = 3_000
/** A run is reported as stuck after so many intervals, and at least so long. */
const STUCK_INTERVALS = 10
const STUCK_MS = 60_000
const tooLong = () => new DeadlineError('A chore', ENDS_WITHIN_MS)

export interface ChoreEvents {
  choreDid(name: string, counts: Readonly<Record<string, number>>): void
  choreFailed(name: string, error: unknown): void
  /** The schedule could not be read. */
  problem(doing: string, error: unknown): void
}

export interface ChoreSchedule {
  /** The chores that fell to this caller, and how long it is until another may be due. */
  take(everyMs: Readonly<Record<string, number>>): Promise<{ taken: string[]; nextInMs: number }>
}

interface Running {
  readonly ended: Promise<void>
  readonly stuckAfterMs: number
  /** On the monotonic clock; infinity once that was reported. */
  stuckAt: number
  /** Its next run may have been due, and was left to other processes. */
  isLate: boolean
}

export class Chores {
  readonly #schedule: ChoreSchedule
  readonly #pool: Pool | undefined
  readonly #events: ChoreEvents
  readonly #chores: ReadonlyMap<string, Chore>
  readonly #everyMs: ReadonlyMap<string, number>
  readonly #running = new Map<string, Running>()
  readonly #stopping = new AbortController()
  readonly #loop: Loop

  constructor(chores: readonly Chore[], schedule: ChoreSchedule, pool: Pool | undefined, events: ChoreEvents) {
    this.#schedule = schedule
    this.#pool = pool
    this.#events = events
    this.#chores = new Map(chores.map((chore) => [chore.name, chore]))
    this.#everyMs = new Map(chores.map(({ name, every }) => [name, durationMs('chore.every', every)]))
    this.#loop = new Loop(() => this.#tick(), { problem: (error) => events.problem('looking for chores', error) })
  }

  start(): void {
    if (this.#chores.size > 0) this.#loop.start()
  }

  /** Aborts the signal of those that run, and resolves when they have ended. */
  async stop(): Promise<void> {
    this.#stopping.abort()
    await this.#loop.stop()
    const running = [...this.#running.values()].map(({ ended }) => ended)
    // One that waits for another service may wait for ever. It is safe to leave it, as it is safe to run it twice.
    await withDeadline(Promise.all(running), ENDS_WITHIN_MS, tooLong).catch(() => {})
  }

  async #tick(): Promise<number> {
    this.#reportStuck()
    // A chore that still runs here goes on; its next run is left to other processes.
    const free = [...this.#everyMs].filter(([name]) => !this.#running.has(name))
    for (const running of this.#running.values()) running.isLate = true
    const none = { taken: [], nextInMs: Number.POSITIVE_INFINITY }
    const { taken, nextInMs } = free.length === 0 ? none : await this.#schedule.take(Object.fromEntries(free))
    for (const name of taken) this.#begin(name)
    const stuckInMs = [...this.#running.values()].map(({ stuckAt }) => stuckAt - monotonicMs())
    return Math.max(Math.min(nextInMs, ...stuckInMs), SOONEST_MS)
  }

  #begin(name: string): void {
    const stuckAfterMs = Math.max(STUCK_INTERVALS * this.#everyMs.get(name)!, STUCK_MS)
    const ended = this.#run(this.#chores.get(name)!).then(() => {
      this.#running.delete(name)
      if (running.isLate) this.#loop.nudge()
    })
    const running: Running = { ended, stuckAfterMs, stuckAt: monotonicMs() + stuckAfterMs, isLate: false }
    this.#running.set(name, running)
  }

  async #run(chore: Chore): Promise<void> {
    try {
      this.#events.choreDid(chore.name, await chore.run(this.#pool!, this.#stopping.signal))
    } catch (error) {
      this.#events.choreFailed(chore.name, error)
    }
  }

  #reportStuck(): void {
    for (const [name, running] of this.#running) {
      if (monotonicMs() < running.stuckAt) continue
      running.stuckAt = Number.POSITIVE_INFINITY
      this.#events.choreFailed(name, new TimedOutError(`The chore ${name}, which goes on,`, running.stuckAfterMs))
    }
  }
}
