/**
 * Chores of the user's: each is taken by one worker of all per interval, as our own duties are. They run beside the
 * housekeeper and not in it, since they may wait for somebody else's network, and a sweep must not.
 */
import type { Pool } from 'pg'
import { durationMs } from '../core/duration.ts'
import { DeadlineError, TimedOutError } from '../core/errors.ts'
import { monotonicMs, withDeadline } from '../core/timer.ts'
import type { Chore } from '../db/chore.ts'
import type { Lane } from '../db/lane.ts'
import { addDuties, takeDuties } from '../runtime/duty.ts'
import { Loop } from '../runtime/loop.ts'
import type { Events } from './events.ts'

const SOONEST_MS = 50
const ENDS_WITHIN_MS = 3_000
/** A run is said to be stuck after so many intervals, and at least so long. */
const STUCK_INTERVALS = 10
const STUCK_MS = 60_000
const tooLong = () => new DeadlineError('A chore', ENDS_WITHIN_MS)

interface Running {
  readonly ended: Promise<void>
  readonly stuckAfterMs: number
  /** On the monotonic clock; infinity once that was reported. */
  stuckAt: number
  /** Its next run was due, perhaps, and was left to others. */
  isLate: boolean
}

export class Chores {
  readonly #lane: Lane
  readonly #pool: Pool
  readonly #events: Events
  readonly #chores: ReadonlyMap<string, Chore>
  readonly #everyMs: Readonly<Record<string, number>>
  readonly #running = new Map<string, Running>()
  readonly #stopping = new AbortController()
  readonly #loop: Loop
  #known = false

  constructor(lane: Lane, pool: Pool, events: Events, chores: readonly Chore[]) {
    this.#lane = lane
    this.#pool = pool
    this.#events = events
    this.#chores = new Map(chores.map((chore) => [dutyOf(chore), chore]))
    this.#everyMs = Object.fromEntries(chores.map((chore) => [dutyOf(chore), durationMs('chore.every', chore.every)]))
    this.#loop = new Loop(() => this.#tick(), events.about('looking for chores'))
  }

  start(): void {
    if (this.#chores.size > 0) this.#loop.start()
  }

  /** Tells chores to end, and resolves when they have. */
  async stop(): Promise<void> {
    this.#stopping.abort()
    await this.#loop.stop()
    const running = [...this.#running.values()].map(({ ended }) => ended)
    // One that waits for somebody else may wait for ever. It is safe to leave it, as it is safe to do it twice.
    await withDeadline(Promise.all(running), ENDS_WITHIN_MS, tooLong).catch(() => {})
  }

  async #tick(): Promise<number> {
    if (!this.#known) await addDuties(this.#lane, [...this.#chores.keys()])
    this.#known = true
    this.#reportStuck()
    // What is still at it since the last time goes on here, and may be taken by somebody else.
    const free = Object.entries(this.#everyMs).filter(([duty]) => !this.#running.has(duty))
    for (const running of this.#running.values()) running.isLate = true
    const none = { taken: [], nextInMs: Number.POSITIVE_INFINITY }
    const { taken, nextInMs } = free.length === 0 ? none : await takeDuties(this.#lane, Object.fromEntries(free))
    for (const duty of taken) this.#begin(duty, this.#chores.get(duty)!)
    const stuckAt = [...this.#running.values()].map(({ stuckAt }) => stuckAt)
    return Math.max(Math.min(nextInMs, ...stuckAt.map((at) => at - monotonicMs())), SOONEST_MS)
  }

  #begin(duty: string, chore: Chore): void {
    const stuckAfterMs = Math.max(STUCK_INTERVALS * this.#everyMs[duty]!, STUCK_MS)
    const ended = this.#run(chore).then(() => {
      this.#running.delete(duty)
      if (running.isLate) this.#loop.nudge()
    })
    const running: Running = { ended, stuckAfterMs, stuckAt: monotonicMs() + stuckAfterMs, isLate: false }
    this.#running.set(duty, running)
  }

  async #run(chore: Chore): Promise<void> {
    const { name } = chore
    try {
      this.#events.choreDid(name, await chore.run(this.#pool, this.#stopping.signal))
    } catch (error) {
      this.#events.choreFailed(name, error)
    }
  }

  #reportStuck(): void {
    for (const [duty, running] of this.#running) {
      if (monotonicMs() < running.stuckAt) continue
      running.stuckAt = Number.POSITIVE_INFINITY
      const { name } = this.#chores.get(duty)!
      this.#events.choreFailed(name, new TimedOutError(`The chore ${name}, which goes on,`, running.stuckAfterMs))
    }
  }
}

/** A name of its own beside ours. */
function dutyOf({ name }: Chore): string {
  return `chore: ${name}`
}
