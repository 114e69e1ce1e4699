/**
 * Keeps what is held here invisible to others, and knows when that may have failed.
 *
 * SQS counts the timeout from when it carries out the receive, which is after we sent it. So our own deadline, counted from
 * sending on the monotonic clock and less a margin, is always earlier. When it passes without an extension known to have been
 * granted, the message is given up: its receipt may belong to the past. The alarm is apart from extending, which may hang.
 *
 * A receive that waited for long may have brought the message at its beginning or at its end, so little of the timeout is
 * certain. Then the message is extended before anything is done with it.
 */
import { Alarm, monotonicMs } from '../core/timer.ts'
import { Loop } from '../worker/loop.ts'
import type { HeldMessage } from './held.ts'
import { BATCH, type Refusal, type SqsQueue } from './queue.ts'

const LARGEST_MARGIN_MS = 1_000
const SIDE_BY_SIDE = 16

export interface VisibilityEvents {
  extended(held: HeldMessage): void
  /** Somebody else may get it now. */
  expired(held: HeldMessage): void
  problem(error: unknown): void
}

export class Visibility {
  readonly #queue: SqsQueue
  readonly #timeoutMs: number
  readonly #events: VisibilityEvents
  readonly #held = new Set<HeldMessage>()
  readonly #loop: Loop
  readonly #alarm = new Alarm(() => this.#giveUp())

  constructor(queue: SqsQueue, timeoutMs: number, events: VisibilityEvents) {
    this.#queue = queue
    this.#timeoutMs = timeoutMs
    this.#events = events
    this.#loop = new Loop(() => this.#tick(), events.problem, timeoutMs / 6)
  }

  start(): void {
    this.#loop.start()
  }

  async stop(): Promise<void> {
    await this.#loop.stop()
    this.#alarm.set(Number.POSITIVE_INFINITY)
  }

  /** Holds what was received together, but for what is not certainly ours: that is gone. */
  async hold(received: readonly HeldMessage[]): Promise<void> {
    const [first] = received
    if (first === undefined) return
    if (this.#deadline(first) - monotonicMs() < this.#timeoutMs / 3) await this.#confirm(received)
    const ours = received.filter((held) => !held.isGone)
    for (const held of ours) {
      this.#held.add(held)
      this.#alarm.setEarlier(this.#deadline(held))
    }
    if (this.#held.size === ours.length || this.#isDue(first)) this.#loop.nudge()
  }

  /** No longer to be kept: it was deleted, or is to be seen by others. */
  release(held: HeldMessage): void {
    this.#held.delete(held)
  }

  /** Its receipt is certainly the latest. */
  isInTime(held: HeldMessage): boolean {
    return monotonicMs() < this.#deadline(held)
  }

  async #tick(): Promise<number> {
    const due = [...this.#held].filter((held) => this.#isDue(held))
    const batches: HeldMessage[][] = []
    for (let from = 0; from < due.length; from += BATCH) batches.push(due.slice(from, from + BATCH))
    const problems: unknown[] = []
    const takeTurns = async () => {
      for (let batch = batches.shift(); batch !== undefined; batch = batches.shift()) {
        await this.#extend(batch).catch((error) => problems.push(error))
      }
    }
    await Promise.all(Array.from({ length: SIDE_BY_SIDE }, takeTurns))
    if (problems.length > 0) throw problems[0]
    return this.#held.size === 0 ? Number.POSITIVE_INFINITY : this.#timeoutMs / 6
  }

  #isDue({ extendedAt }: HeldMessage): boolean {
    return monotonicMs() - extendedAt >= this.#timeoutMs / 3
  }

  async #confirm(received: readonly HeldMessage[]): Promise<void> {
    const sentAt = monotonicMs()
    let refused = received
    try {
      refused = (await this.#ask(received)).map(({ index }) => received[index]!)
    } catch (error) {
      this.#events.problem(error)
    }
    for (const held of received) {
      if (refused.includes(held)) this.#expire(held, 'it was received late, and could not be extended')
      else held.extendedAt = sentAt
    }
  }

  #ask(batch: readonly HeldMessage[]): Promise<readonly Refusal[]> {
    const entries = batch.map(({ receipt }) => ({ receipt, seconds: this.#timeoutMs / 1_000 }))
    return this.#queue.changeVisibility(entries, Math.max(this.#timeoutMs / 3, 500))
  }

  async #extend(batch: readonly HeldMessage[]): Promise<void> {
    const sentAt = monotonicMs()
    const refusals = await this.#ask(batch)
    const refused = new Map(refusals.map((refusal) => [refusal.index, refusal]))
    batch.forEach((held, index) => {
      if (!this.#held.has(held)) return
      const refusal = refused.get(index)
      if (refusal === undefined) {
        held.extendedAt = sentAt
        this.#events.extended(held)
        // It is not in flight any more, or has been for twelve hours. Or its delete was carried out just now.
      } else if (refusal.forGood && !held.isEnding) this.#expire(held, `SQS refused to extend it: ${refusal.code}`)
    })
    const again = refusals.find(({ forGood }) => !forGood)
    if (again !== undefined) throw new Error(`SQS did not extend a message: ${again.code}`)
  }

  #deadline({ extendedAt }: HeldMessage): number {
    return extendedAt + this.#timeoutMs - Math.min(LARGEST_MARGIN_MS, this.#timeoutMs / 10)
  }

  #giveUp(): void {
    const now = monotonicMs()
    let next = Number.POSITIVE_INFINITY
    for (const held of [...this.#held]) {
      const deadline = this.#deadline(held)
      if (deadline <= now) this.#expire(held, 'it could not be extended in time')
      else next = Math.min(next, deadline)
    }
    this.#alarm.set(next)
  }

  #expire(held: HeldMessage, why: string): void {
    this.#held.delete(held)
    held.expire(new Error(`Message ${held.id} may be somebody else's by now: ${why}. Drop the work.`))
    this.#events.expired(held)
  }
}
