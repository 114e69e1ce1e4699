/** Counts calls of the handler, notices a job that comes twice, and sends marks. */
import { FIRST_ORDER } from '../inputs.ts'
import { monotonicMs, type Usage } from './protocol.ts'
import { counted } from './statements.ts'

export class Tally {
  handled = 0
  /** By the number of the job. */
  readonly seen: Uint8Array
  readonly #marks: readonly number[]
  readonly #onMark: () => void
  #next = 0

  constructor(jobs: number, marks: readonly number[], onMark: () => void) {
    this.seen = new Uint8Array(jobs)
    this.#marks = marks
    this.#onMark = onMark
  }

  /** Throws for an unknown job or a duplicate. The queue would retry it, so the failure is also reported. */
  add(orderId: number): void {
    const at = orderId - FIRST_ORDER
    if (this.seen[at] !== 0) {
      throw new Error(`order ${orderId} was handled ${this.seen[at] === 1 ? 'twice' : 'though nobody enqueued it'}`)
    }
    this.seen[at] = 1
    this.handled += 1
    if (this.handled === this.#marks[this.#next]) {
      this.#next += 1
      this.#onMark()
    }
  }
}

export function usage(handled: number, collectGarbage = false): Usage {
  const { user, system } = process.cpuUsage()
  if (collectGarbage) (globalThis as { gc?: () => void }).gc?.()
  const { rss, heapUsed } = process.memoryUsage()
  return {
    handled,
    atMs: monotonicMs(),
    nodeMicros: user + system,
    ...counted,
    rssBytes: rss,
    heapBytes: heapUsed,
  }
}
