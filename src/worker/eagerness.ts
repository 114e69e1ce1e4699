/**
 * Whether a worker answers a wake-up at once.
 *
 * A wake-up reaches the whole fleet, and one worker is enough for one job. So who answered in vain answers one in as many as
 * there are workers at once, then half as often each time, and the others a little later, or with its poll. Who found work
 * answers at once again. Of many idle workers one or two are left that answer at once, and when those are full or gone, another worker that
 * finds work by its poll takes their place.
 *
 * Nothing is lost: what a worker does not answer is what it would not have heard, and it polls as before (decisions/0027).
 */

/** Of workers that do not answer at once, about one answers in each such span. */
const NEXT_ANSWER_MS = 30
/** Who has answered in vain often enough answers one in so many times the fleet. */
const LAZIEST = 8

export class Eagerness {
  readonly #pollMs: number
  readonly #random: () => number
  #fleet = 1
  /** How many are as eager as this one, as far as it knows. */
  #crowd = 1

  constructor(pollMs: number, random: () => number = Math.random) {
    this.#pollMs = pollMs
    this.#random = random
  }

  /** So many workers hear what this one hears. */
  set fleet(workers: number) {
    this.#fleet = workers
    this.#crowd = Math.min(this.#crowd, this.#most)
  }

  get isAlone(): boolean {
    return this.#fleet <= 1
  }

  /** After how many milliseconds to answer a wake-up. Infinity: the poll is soon enough. */
  answerAfterMs(): number {
    if (this.#random() * this.#crowd < 1) return 0
    const spanMs = this.#crowd * NEXT_ANSWER_MS
    return spanMs < this.#pollMs / 2 ? this.#random() * spanMs : Number.POSITIVE_INFINITY
  }

  /** A claim found something. */
  found(): void {
    this.#crowd = 1
  }

  /** A claim that answered a wake-up found nothing. */
  inVain(): void {
    this.#crowd = Math.min(Math.max(2 * this.#crowd, this.#fleet), this.#most)
  }

  get #most(): number {
    return this.isAlone ? 1 : LAZIEST * this.#fleet
  }
}
