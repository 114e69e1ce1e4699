/** Where a worker that leaves soon, or a claim by hand, may claim from: it has no seat on the ring, so it takes what has no owner. */
import { BUCKETS } from '../core/bucket.ts'
import { monotonicMs } from '../core/timer.ts'
import type { Lane } from '../db/lane.ts'
import type { OwnedBuckets } from '../jobs/claim.ts'
import type { Line } from '../jobs/lines.ts'
import { readRings } from '../jobs/ring.ts'
import { BucketSet } from '../ring/bits.ts'

const LOOK_EVERY_MS = 2_500

export class UnownedLines {
  readonly #lane: Lane
  readonly #queues: readonly string[]
  readonly #onChange: () => void
  /** By queue that is or was on the ring. */
  #owners: ReadonlyMap<string, { readonly hasOwners: boolean }> = new Map()
  #lookedAt = Number.NEGATIVE_INFINITY

  constructor(lane: Lane, queues: readonly string[], onChange = () => {}) {
    this.#lane = lane
    this.#queues = [...new Set(queues)]
    this.#onChange = onChange
  }

  get lines(): Line[] | undefined {
    if (this.#owners.size === 0) return undefined
    return this.#queues.flatMap((queue) => {
      const buckets = this.#owners.get(queue)?.hasOwners === false ? BUCKETS : 0
      return Array.from({ length: 1 + buckets }, (_, line) => ({ queue, line }))
    })
  }

  get owned(): OwnedBuckets | undefined {
    if (this.#owners.size === 0) return undefined
    const withOwners = [...this.#owners].filter(([, { hasOwners }]) => hasOwners)
    return new Map(withOwners.map(([queue]) => [queue, new BucketSet().bytes]))
  }

  /** Looks, unless the last look was a moment ago. */
  async refresh(): Promise<void> {
    if (monotonicMs() - this.#lookedAt >= LOOK_EVERY_MS) await this.tick()
  }

  async tick(): Promise<number> {
    const before = JSON.stringify([...this.#owners])
    this.#owners = await readRings(this.#lane, this.#queues)
    this.#lookedAt = monotonicMs()
    if (before !== JSON.stringify([...this.#owners])) this.#onChange()
    return LOOK_EVERY_MS
  }
}
