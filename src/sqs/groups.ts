/**
 * The groups of a FIFO queue: one message of each at a time, in the order in which they came.
 *
 * SQS counts a delivery of each message that it gives out, tried or not. So that those behind a message that fails again and
 * again do not wear out with it, messages are to be asked for one by one around the time when it comes again, and it does not
 * come again while a receive is open that would bring them along.
 */
import { monotonicMs } from '../core/timer.ts'
import type { HeldMessage } from './held.ts'

interface Window {
  readonly from: number
  readonly to: number
}

export class Groups {
  /** Behind the one whose turn it is. */
  readonly #waiting = new Map<string, HeldMessage[]>()
  /** When the first message of a group that was stopped comes again. */
  readonly #stopped = new Map<string, Window>()

  readonly #receiveMs: number

  /** `receiveMs`: how long a receive under way may last. */
  constructor(receiveMs: number) {
    this.#receiveMs = receiveMs
  }

  /** Whether it is its turn; otherwise it waits. */
  enter(held: HeldMessage): boolean {
    const waiting = this.#waiting.get(groupOf(held))
    if (waiting === undefined) this.#waiting.set(groupOf(held), [])
    else waiting.push(held)
    return waiting === undefined
  }

  /** Its turn is over. Answers whose turn it is now. */
  leave(held: HeldMessage): HeldMessage | undefined {
    const next = this.#waiting.get(groupOf(held))?.shift()
    if (next === undefined) this.#waiting.delete(groupOf(held))
    return next
  }

  /** Whether it was waiting: it waits no longer. */
  remove(held: HeldMessage): boolean {
    const waiting = this.#waiting.get(groupOf(held)) ?? []
    const at = waiting.indexOf(held)
    if (at >= 0) waiting.splice(at, 1)
    return at >= 0
  }

  isAnyBehind(held: HeldMessage): boolean {
    return (this.#waiting.get(groupOf(held)) ?? []).length > 0
  }

  /** Those that wait behind it, the last one first: they wait no longer. */
  takeBehind(held: HeldMessage): HeldMessage[] {
    const waiting = this.#waiting.get(groupOf(held)) ?? []
    return waiting.splice(waiting.indexOf(held) + 1).reverse()
  }

  /** All that wait, the last of each group first. */
  takeAll(): HeldMessage[] {
    return [...this.#waiting.values()].flatMap((waiting) => waiting.splice(0).reverse())
  }

  /** It comes again after this long. */
  stop(held: HeldMessage, delayMs: number): void {
    const comesAt = monotonicMs() + delayMs
    const slackMs = this.#receiveMs + 10_000
    this.#stopped.set(groupOf(held), { from: comesAt - slackMs, to: comesAt + slackMs })
  }

  /** A message of its group got through. */
  goOn(held: HeldMessage): void {
    if (this.#stopped.size > 0) this.#stopped.delete(groupOf(held))
  }

  isAnyStopped(): boolean {
    const now = monotonicMs()
    for (const [group, { from, to }] of this.#stopped) {
      if (to < now) this.#stopped.delete(group)
      else if (from <= now) return true
    }
    return false
  }
}

/** A queue that tells of no groups is one group. */
function groupOf({ groupId }: HeldMessage): string {
  return groupId ?? ''
}
