/** Where a worker that leaves soon may claim from: it has no seat on the ring, so it takes what has no owner. */
import { BUCKETS } from '../core/bucket.ts'
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

  constructor(lane: Lane, queues: readonly string[], onChange: () => void) {
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

  async tick(): Promise<number> {
    const before = JSON.stringify([...this.#owners])
    this.#owners = await readRings(this.#lane, this.#queues)
    if (before !== JSON.stringify([...this.#owners])) this.#onChange()
    return LOOK_EVERY_MS
  }
}
