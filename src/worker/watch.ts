/**
 * A steady flow of work needs no wake-ups.
 *
 * Each announcement makes the producer's commit take a lock of the whole server, wakes the connection that listens, and is answered by a
 * claim. If jobs come steadily, the worker can as well look for them. So it watches these queues: it writes `busy until`, so that
 * enqueues send no NOTIFY, and claims a little less often than jobs come, but at least 3.5 and at most 20 ms apart. More than 3.5 ms only where that
 * is at most a fifth of what handlers take, so that 20 ms means handlers of 100 ms.
 *
 * The watch begins where jobs come as often as it would claim at least: 286 a second, or 50 where handlers take 100 ms. It ends when
 * two of three claims find no job of these queues although claims are as rare as they may be, and as soon as another worker serves one
 * of them: notifications spread work over a fleet.
 *
 * No job is overlooked (decisions/0016). The worker claims after it has ended the watch, and that claim finds what was committed by then.
 * A transaction may still be open, and its enqueue has sent no NOTIFY. So the worker claims again after 5, 10, 20, 40 … ms, until its
 * poll takes over: a job that is committed t ms after the end is looked for by 2 t. If the worker dies, stands still or cannot reach the
 * database, `busy until` passes, and polls find the jobs.
 */
import { monotonicMs } from '../core/timer.ts'
import type { Lane } from '../db/lane.ts'
import { clearBusy, fleetOf, markBusy } from '../jobs/wake.ts'

/** From one claim to the next, whatever handlers take. */
const SHORTEST_MS = 3.5
/** More than that is at most this share of what a handler takes. */
const SHARE_OF_HANDLER = 0.2
const LONGEST_MS = 20
/** By the rate of late. If jobs come at random, two of seven claims then find none. */
const JOBS_OF_A_CLAIM = 1.25
/** Timers count whole milliseconds. So much later than it should, and not more, a claim is sent on average. */
const TIMERS_ARE_LATE_MS = 0.4
/** A watch goes on while at least this share of its claims finds a job. */
const MUST_FIND = 1 / 3
const RATE_OVER_MS = 500
const MARKS_FOR_MS = 5_000
/** A mark is renewed when less than this is left of it, and the other workers are counted again. */
const RENEWS_BELOW_MS = 2_000
/** After a watch, before the next. */
export const RESTS_MS = 5_000
/** A claim between looks asks no more queues than these because they were announced. */
const QUEUES_AT_MOST = 8
const FIRST_LOOK_AFTER_MS = 5

export class Watch {
  readonly #lane: Lane
  readonly #pollMs: number
  readonly #handlerMs: () => number
  /** Announcements of queues that are not watched, since the rate was last taken. */
  readonly #heard = new Map<string, number>()
  readonly #queues = new Set<string>()
  #isOn = false
  /** Enqueues may have sent no NOTIFY because of this watch. */
  #hasMarked = false
  #since = Number.NEGATIVE_INFINITY
  #claims = 0
  #found = 0
  #jobs = 0
  #distanceMs = SHORTEST_MS
  #markedUntil = Number.NEGATIVE_INFINITY
  #endedAt = Number.NEGATIVE_INFINITY
  #restsUntil = Number.NEGATIVE_INFINITY

  /** `handlerMs`: what a handler takes, of the kind whose handlers take the least; 0 if that is not known. */
  constructor(lane: Lane, pollMs: number, handlerMs: () => number) {
    this.#lane = lane
    this.#pollMs = pollMs
    this.#handlerMs = handlerMs
  }

  get isOn(): boolean {
    return this.#isOn
  }

  /** The next claim must ask these. After the end of a watch, too, until the poll takes over. */
  get queues(): Iterable<string> {
    return this.#isOn || this.claimsInMs < Number.POSITIVE_INFINITY ? this.#queues : []
  }

  /** When to claim again after the end of a watch. */
  get claimsInMs(): number {
    const elapsed = monotonicMs() - this.#endedAt
    return elapsed < this.#pollMs ? Math.max(elapsed, FIRST_LOOK_AFTER_MS) : Number.POSITIVE_INFINITY
  }

  heard(queue: string): void {
    if (this.#isOn && this.#queues.has(queue)) return
    this.#heard.set(queue, (this.#heard.get(queue) ?? 0) + 1)
  }

  /** From one claim to the next while it watches. */
  get distanceMs(): number | undefined {
    return this.#isOn ? this.#distanceMs : undefined
  }

  /** A claim returned so many jobs, of these queues. */
  claimed(queues: Iterable<string>, jobs: number): void {
    if (!this.#isOn) return
    this.#claims++
    this.#jobs += jobs
    for (const queue of queues) {
      if (!this.#queues.has(queue)) continue
      this.#found++
      return
    }
  }

  /** Another part of the worker has cleared the mark. */
  cleared(): void {
    this.#markedUntil = Number.NEGATIVE_INFINITY
  }

  /** Begins, goes on or ends, after a claim that came back short. `isAlone`: no other worker is known. */
  async update(isAlone: boolean): Promise<void> {
    const now = monotonicMs()
    if (this.#isOn && !isAlone) return this.end()
    const overMs = now - this.#since
    if (overMs >= RATE_OVER_MS) {
      const isInVain = this.#found < MUST_FIND * this.#claims
      const announced = this.#takeAnnounced()
      const jobs = this.#isOn ? this.#jobs : announced.times
      this.#since = now
      this.#claims = 0
      this.#found = 0
      this.#jobs = 0
      const mostMs = Math.max(SHORTEST_MS, Math.min(SHARE_OF_HANDLER * this.#handlerMs(), LONGEST_MS))
      if (this.#isOn && isInVain && this.#distanceMs >= mostMs) return this.end()
      if (announced.times * mostMs >= overMs && isAlone && now >= this.#restsUntil) this.#add(announced.queues)
      this.#distanceMs = Math.max(SHORTEST_MS, Math.min((JOBS_OF_A_CLAIM * overMs) / jobs - TIMERS_ARE_LATE_MS, mostMs))
    }
    if (this.#isOn && this.#markedUntil - now < RENEWS_BELOW_MS) await this.#mark()
  }

  async end(): Promise<void> {
    if (!this.#isOn) return
    if (this.#hasMarked) {
      await clearBusy(this.#lane, [...this.#queues])
      this.#endedAt = monotonicMs()
    }
    this.#isOn = false
    this.#restsUntil = monotonicMs() + RESTS_MS
  }

  /** Those announced most often, and how often that was. */
  #takeAnnounced(): { queues: string[]; times: number } {
    const room = this.#isOn ? QUEUES_AT_MOST - this.#queues.size : QUEUES_AT_MOST
    const most = [...this.#heard].sort(([, one], [, other]) => other - one).slice(0, room)
    this.#heard.clear()
    const times = most.reduce((sum, [, count]) => sum + count, 0)
    return { queues: most.map(([queue]) => queue), times }
  }

  #add(queues: readonly string[]): void {
    if (!this.#isOn) {
      this.#queues.clear()
      this.#hasMarked = false
    }
    for (const queue of queues) this.#queues.add(queue)
    this.#isOn = true
    this.cleared()
  }

  async #mark(): Promise<void> {
    const queues = [...this.#queues]
    if ((await fleetOf(this.#lane, queues)) > 1) return this.end()
    const now = monotonicMs()
    this.#hasMarked = true // Also if the reply is lost.
    await markBusy(this.#lane, queues, MARKS_FOR_MS)
    this.#markedUntil = now + MARKS_FOR_MS
  }
}
