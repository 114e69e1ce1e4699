/** What a beat carries of a worker's jobs: how many it has, and what it did since the beat before. */
import { monotonicMs } from '../core/timer.ts'
import type { QueueRates } from '../jobs/registry.ts'
import type { PendingOutcome, RecordedAs } from './pending-outcome.ts'

/** A beat must stay small: of a worker with many queues the busiest. */
const QUEUES_AT_MOST = 50

export class Load {
  readonly #slots: { readonly held: number; readonly running: number }
  #since = monotonicMs()
  readonly #counts = new Map<string, { completed: number; failed: number }>()

  constructor(slots: { readonly held: number; readonly running: number }) {
    this.#slots = slots
  }

  get held(): number {
    return this.#slots.held
  }

  get running(): number {
    return this.#slots.running
  }

  note({ job, outcome }: PendingOutcome, known: RecordedAs): void {
    const isFailure = known === 'dead_letter' || (known === 'pending' && outcome.verb === 'fail')
    if (known !== 'completed' && !isFailure) return
    const { queue } = job.claimed
    let counts = this.#counts.get(queue)
    if (counts === undefined) {
      counts = { completed: 0, failed: 0 }
      this.#counts.set(queue, counts)
    }
    if (known === 'completed') counts.completed++
    else counts.failed++
  }

  /** Of each queue, per second since the last call. */
  takeRates(now = monotonicMs()): QueueRates {
    const seconds = Math.max((now - this.#since) / 1_000, 0.001)
    const perSecond = (count: number) => Math.round((count / seconds) * 100) / 100
    const busiest = [...this.#counts].sort(([, a], [, b]) => b.completed + b.failed - a.completed - a.failed)
    this.#since = now
    this.#counts.clear()
    return Object.fromEntries(
      busiest
        .slice(0, QUEUES_AT_MOST)
        .map(([queue, { completed, failed }]) => [queue, [perSecond(completed), perSecond(failed)]]),
    )
  }
}
