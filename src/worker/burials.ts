/**
 * Announces the jobs that this process has buried by a sweep or by their expiry.
 *
 * The reply to such a statement can be lost, and so can the reply to the question which jobs they were. The statement may have
 * committed all the same, or may still do so until the server ends it. So the process reads the dead letters of that time until
 * then, and announces those it has not announced. Some of them may be another process's: these are announced twice.
 */
import { monotonicMs } from '../core/timer.ts'
import type { Lane } from '../db/lane.ts'
import { type Buried, buried, buriedLately } from '../jobs/housekeeping.ts'
import type { JobId } from '../jobs/job.ts'
import type { Events } from './events.ts'
import { announceDeadLetter } from './outcome-events.ts'

/** The server has ended every statement by then. */
const ENDS_WITHIN_MS = 30_000
/** The question may take longer on its way than the statement did. */
const MARGIN_MS = 5_000
const REMEMBERED = 10_000

export class Burials {
  readonly #lane: Lane
  readonly #events: Events
  /** Announced by this process: job and generation. */
  readonly #announced = new Set<string>()
  /** When the first statement without a reply was sent, and when the last of them has ended. */
  #missing: { readonly since: number; readonly until: number } | undefined

  constructor(lane: Lane, events: Events) {
    this.#lane = lane
    this.#events = events
  }

  /** Runs a statement that buries jobs, and announces them. */
  async announce<Result>(bury: () => Promise<Result>, letters: (result: Result) => readonly JobId[]): Promise<Result> {
    const sentAt = monotonicMs()
    try {
      const result = await bury()
      await this.#announce(letters(result))
      return result
    } catch (error) {
      this.#missing = { since: this.#missing?.since ?? sentAt, until: monotonicMs() + ENDS_WITHIN_MS }
      throw error
    }
  }

  /** Announces those whose reply was lost, if one was. */
  async announceMissing(): Promise<void> {
    if (this.#missing === undefined) return
    const { since, until } = this.#missing
    const isLast = monotonicMs() > until
    const lately = await buriedLately(this.#lane, monotonicMs() - since + MARGIN_MS)
    await this.#announce(lately.filter((letter) => !this.#announced.has(nameOf(letter))).map(({ jobId }) => jobId))
    if (isLast) this.#missing = undefined
  }

  async #announce(jobIds: readonly JobId[]): Promise<void> {
    for (const letter of await buried(this.#lane, jobIds)) {
      this.#announced.add(nameOf(letter))
      announceDeadLetter(this.#events, letter)
    }
    for (const name of this.#announced) {
      if (this.#announced.size <= REMEMBERED) break
      this.#announced.delete(name)
    }
  }
}

function nameOf({ jobId, generation }: Pick<Buried, 'jobId' | 'generation'>): string {
  return `${jobId} ${generation}`
}
