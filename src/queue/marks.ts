/**
 * Where the next claim starts to walk.
 *
 * A claim from the beginning of a queue steps over every index entry that was claimed or finished since the oldest
 * transaction still open anywhere. So a claim starts from a mark: for each queue and priority, the first row of the batch
 * taken there last. Work that appears behind a mark (a transaction that committed late, a released job) is found by a
 * look from the beginning: every 250 ms, and at once after a short batch or a wake-up, but looks take no more than a
 * thirtieth of the time, however slow somebody's long transaction makes them.
 *
 * Worst case for work behind a mark, on a worker that keeps asking: 250 ms, or 30 × the cost of a look up to 30 s. The cost
 * is the lower of the last two looks, so that one stall (a failover, a full pool) is not taken for the price of looking.
 */
import type { ClaimedJob } from './job.ts'
import { timeText } from './stored-time.ts'

const LOOK_EVERY_MS = 250
const LOOK_COST_FACTOR = 30
const LONGEST_WAIT_MS = 30_000
const PRIORITIES = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9] as const

/** A (queue, priority) and the row to start from. */
export interface Spot {
  readonly queue: string
  readonly priority: number
  readonly fromAt: string
  readonly fromId: string
}

/** The beginning of every priority of these queues, most urgent first. */
export function everySpot(queues: readonly string[]): Spot[] {
  // Each spot once: a row this claim has locked itself does not count as locked, and would be taken twice.
  const once = [...new Set(queues)]
  return PRIORITIES.flatMap((priority) => once.map((queue) => ({ queue, priority, fromAt: '-infinity', fromId: '0' })))
}

export class Marks {
  readonly #queues: readonly string[]
  readonly #now: () => number
  readonly #marks = new Map<string, Spot>()
  // Looks take turns of their own: if one happened on every second claim, a shared turn would favour one queue for ever.
  #claims = 0
  #looks = 0
  // The first look also opens the connection, so what it took says nothing.
  #lookCostsMs: [number, number] = [0, 0]
  #lookedAt = Number.NEGATIVE_INFINITY
  #hurry = true

  /** `now` is monotonic, in milliseconds. */
  constructor(queues: readonly string[], now: () => number = () => performance.now()) {
    this.#queues = [...new Set(queues)]
    this.#now = now
  }

  /** The spots of the next claim, most urgent priority first; queues take turns at being first. */
  next(): { spots: readonly Spot[]; fromStart: boolean } {
    const fromStart = this.lookIsDue()
    const turn = fromStart ? this.#looks++ : this.#claims++
    // From now on, so that a look that fails is not tried again and again.
    if (fromStart) this.#lookedAt = this.#now()
    const queues = this.#queues.map((_, index) => this.#queues[(index + turn) % this.#queues.length]!)
    const all = everySpot(queues)
    const marked = () => all.flatMap(({ queue, priority }) => this.#marks.get(spotKey(queue, priority)) ?? [])
    return { spots: fromStart ? all : marked(), fromStart }
  }

  /** What the claim returned, in its order, and how long it took. */
  learn(claimed: { fromStart: boolean; jobs: readonly ClaimedJob[]; limit: number; tookMs: number }): void {
    if (claimed.fromStart) {
      this.#lookedAt = this.#now()
      this.#lookCostsMs = [this.#lookCostsMs[1], claimed.tookMs]
      this.#hurry = false
    }
    if (claimed.jobs.length < claimed.limit) this.#hurry = true
    const seen = new Set<string>()
    for (const { queue, priority, availableAt, jobId } of claimed.jobs) {
      const key = spotKey(queue, priority)
      if (seen.has(key)) continue
      seen.add(key)
      this.#marks.set(key, { queue, priority, fromAt: timeText(availableAt), fromId: jobId })
    }
  }

  /** Something may have appeared behind the marks: a wake-up, a change of the ring. */
  lookFromStart(): void {
    this.#hurry = true
  }

  /** Whether the next claim will be a look from the beginning. */
  lookIsDue(): boolean {
    return this.lookDueInMs() <= 0
  }

  lookDueInMs(): number {
    if (this.#marks.size === 0) return 0
    const cost = Math.min(LOOK_COST_FACTOR * Math.min(...this.#lookCostsMs), LONGEST_WAIT_MS)
    const wait = Math.max(this.#hurry ? 0 : LOOK_EVERY_MS, cost)
    return this.#lookedAt + wait - this.#now()
  }
}

function spotKey(queue: string, priority: number): string {
  return `${priority}${queue}`
}
