/** Delays by their size: percentiles of any number of them, in a few kilobytes. */

/** Buckets for each doubling: a percentile is at most 2.2 % above the true one. */
const PER_DOUBLING = 32

export interface Delays {
  readonly p50Ms: number
  readonly p95Ms: number
  readonly p99Ms: number
  readonly maxMs: number
}

export class DelayHistogram {
  /** By bucket. Number n holds delays up to 2 ** (n / 32) ms. */
  readonly #counts = new Map<number, number>()
  #total = 0
  #maxMs = Number.NEGATIVE_INFINITY

  /** A delay below 1 ms counts as 1 ms. It is negative where two clocks differ. */
  add(ms: number): void {
    const bucket = Math.ceil(Math.log2(Math.max(1, ms)) * PER_DOUBLING)
    this.#counts.set(bucket, (this.#counts.get(bucket) ?? 0) + 1)
    this.#maxMs = Math.max(this.#maxMs, ms)
    this.#total++
  }

  /** Undefined: there was none. */
  summary(): Delays | undefined {
    if (this.#total === 0) return undefined
    return { p50Ms: this.#at(0.5), p95Ms: this.#at(0.95), p99Ms: this.#at(0.99), maxMs: this.#maxMs }
  }

  /** The upper end of the bucket in which this part of all delays is reached. */
  #at(part: number): number {
    let before = 0
    for (const [bucket, count] of [...this.#counts].sort(([one], [other]) => one - other)) {
      before += count
      if (before >= part * this.#total) return Math.min(this.#maxMs, 2 ** (bucket / PER_DOUBLING))
    }
    return this.#maxMs
  }
}
