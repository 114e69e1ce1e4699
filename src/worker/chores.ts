/**
 * Chores of the user's: each is taken by one worker of all per interval, as our own duties are. They run beside the
 * housekeeper and not in it, since they may wait for somebody else's network, and a sweep must not.
 */
import type { Pool } from 'pg'
import { checkText } from '../core/check.ts'
import { durationMs } from '../core/duration.ts'
import { DeadlineError, InvalidOptionError } from '../core/errors.ts'
import { withDeadline } from '../core/timer.ts'
import type { Chore } from '../db/chore.ts'
import type { Lane } from '../db/lane.ts'
import { addDuties, takeDuties } from '../queue/duty.ts'
import type { Events } from './events.ts'
import { Loop } from './loop.ts'

const SOONEST_MS = 50
const ENDS_WITHIN_MS = 3_000
const tooLong = () => new DeadlineError('A chore', ENDS_WITHIN_MS)

export class Chores {
  readonly #lane: Lane
  readonly #pool: Pool
  readonly #events: Events
  readonly #chores: ReadonlyMap<string, Chore>
  readonly #everyMs: Readonly<Record<string, number>>
  readonly #running = new Map<string, Promise<void>>()
  readonly #stopping = new AbortController()
  readonly #loop: Loop
  #known = false

  constructor(lane: Lane, pool: Pool, events: Events, chores: readonly Chore[]) {
    this.#lane = lane
    this.#pool = pool
    this.#events = events
    this.#chores = new Map(chores.map((chore) => [dutyOf(chore), chore]))
    this.#everyMs = Object.fromEntries(chores.map((chore) => [dutyOf(chore), durationMs('chore.every', chore.every)]))
    this.#loop = new Loop(
      () => this.#tick(),
      (error) => events.problem('looking for chores', error),
    )
  }

  start(): void {
    if (this.#chores.size > 0) this.#loop.start()
  }

  /** Tells chores to end, and resolves when they have. */
  async stop(): Promise<void> {
    this.#stopping.abort()
    await this.#loop.stop()
    // One that waits for somebody else may wait for ever. It is safe to leave it, as it is safe to do it twice.
    await withDeadline(Promise.all(this.#running.values()), ENDS_WITHIN_MS, tooLong).catch(() => {})
  }

  async #tick(): Promise<number> {
    if (!this.#known) await addDuties(this.#lane, [...this.#chores.keys()])
    this.#known = true
    const { taken, nextInMs } = await takeDuties(this.#lane, this.#everyMs)
    for (const duty of taken) {
      // One that is still at it since the last time goes on.
      if (!this.#running.has(duty)) this.#running.set(duty, this.#run(duty, this.#chores.get(duty)!))
    }
    return Math.max(nextInMs, SOONEST_MS)
  }

  async #run(duty: string, { name, run }: Chore): Promise<void> {
    try {
      const did = await run(this.#pool, this.#stopping.signal)
      this.#events.tell('chore', { name, did })
    } catch (error) {
      this.#events.problem(name, error)
    } finally {
      this.#running.delete(duty)
    }
  }
}

/** A name of its own beside ours. */
function dutyOf({ name }: Chore): string {
  return `chore: ${name}`
}

export function checkChores(chores: readonly Chore[]): readonly Chore[] {
  if (!Array.isArray(chores)) throw new InvalidOptionError('worker.chores', 'it must be a list')
  const names = chores.map((chore, index) => {
    if (typeof chore?.run !== 'function') throw new InvalidOptionError(`worker.chores[${index}]`, 'it has no run()')
    durationMs(`worker.chores[${index}].every`, chore.every, 100)
    return checkText(`worker.chores[${index}].name`, chore.name, 200)
  })
  const twice = names.find((name, index) => names.indexOf(name) !== index)
  if (twice === undefined) return chores
  throw new InvalidOptionError('worker.chores', `there are two of the name ${twice}`)
}
