/**
 * A look that takes too long as a whole, slice by slice.
 *
 * Each slice is the jobs that have been due for between so long and so long. The latest come first, since that is where new
 * work is; every next slice is older, so that no job slips from one that was not seen yet into one that was. Slices grow
 * while they are cheap and shrink when they are not, so each comes to an end. When all were seen it starts again, or goes back
 * to whole looks if together they were quick.
 */
const TOO_LONG_MS = 3_000
const CHEAP_MS = 1_000
const FIRST_WIDTH_MS = 10_000
const NARROWEST_MS = 100
/** Older than any job. */
const THE_END_MS = 2 ** 40

export class Slices {
  #from = 0
  #width = FIRST_WIDTH_MS
  #tookMs = 0
  #found = 0
  #isOn = false

  /** Undefined: all. */
  get next(): { readonly from: number; readonly to: number } | undefined {
    return this.#isOn ? { from: this.#from, to: this.#from + this.#width } : undefined
  }

  /** A whole look took this long. */
  took(ms: number): void {
    if (ms > TOO_LONG_MS) this.#begin()
  }

  /** A look, whole or not, was not answered within this time. */
  failed(afterMs: number): void {
    if (afterMs <= TOO_LONG_MS) return
    if (this.#isOn) this.#width = Math.max(NARROWEST_MS, this.#width / 4)
    else this.#begin()
  }

  /** The slice was seen, with `more` left in it or not. Returns whether that was the last, and nothing was found in any. */
  seen(ms: number, jobs: number, more: boolean): boolean {
    this.#tookMs += ms
    this.#found += jobs
    if (!more) this.#from += this.#width
    if (ms < CHEAP_MS) this.#width *= 2
    else if (ms > TOO_LONG_MS) this.#width = Math.max(NARROWEST_MS, this.#width / 2)
    if (this.#from < THE_END_MS) return false
    const sawNothing = this.#found === 0
    this.#isOn = false
    if (this.#tookMs > TOO_LONG_MS) this.#begin()
    return sawNothing
  }

  #begin(): void {
    this.#isOn = true
    this.#from = 0
    this.#width = FIRST_WIDTH_MS
    this.#tookMs = 0
    this.#found = 0
  }
}
