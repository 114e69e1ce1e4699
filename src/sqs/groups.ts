/**
 * The groups of a FIFO queue: one message of each at a time, in the order in which they came.
 *
 * A turn ends when the message has ended, or when it is given up: then SQS may deliver it again, here or elsewhere, and must
 * not find its group taken by a handler that hangs.
 *
 * SQS counts a delivery of each message that it gives out, tried or not. So that those behind a message that fails again and
 * again do not wear out with it, messages are to be asked for one by one around the time when it comes again, and it does not
 * come again while a receive is open that would bring them along.
 */
import { monotonicMs } from '../core/timer.ts'
import type { HeldMessage } from './held.ts'

interface Group {
  /** Whose turn it is. */
  turn: HeldMessage
  readonly waiting: HeldMessage[]
}

interface Window {
  readonly from: number
  readonly to: number
}

export class Groups {
  readonly #groups = new Map<string, Group>()
  /** When the first message of a group that was stopped comes again. */
  readonly #stopped = new Map<string, Window>()
  readonly #receiveMs: number

  /** `receiveMs`: how long a receive under way may last. */
  constructor(receiveMs: number) {
    this.#receiveMs = receiveMs
  }

  /** Whether it is its turn; otherwise it waits. */
  enter(held: HeldMessage): boolean {
    const group = this.#groups.get(nameOf(held))
    if (group === undefined) this.#groups.set(nameOf(held), { turn: held, waiting: [] })
    else group.waiting.push(held)
    return group === undefined
  }

  /** Its turn is over, if it was its turn. Answers whose turn it is now. */
  leave(held: HeldMessage): HeldMessage | undefined {
    const group = this.#groups.get(nameOf(held))
    if (group?.turn !== held) return undefined
    const next = group.waiting.shift()
    if (next === undefined) this.#groups.delete(nameOf(held))
    else group.turn = next
    return next
  }

  /** Whether it was waiting: it waits no longer. */
  remove(held: HeldMessage): boolean {
    const waiting = this.#groups.get(nameOf(held))?.waiting ?? []
    const at = waiting.indexOf(held)
    if (at >= 0) waiting.splice(at, 1)
    return at >= 0
  }

  isAnyBehind(held: HeldMessage): boolean {
    const group = this.#groups.get(nameOf(held))
    return group?.turn === held && group.waiting.length > 0
  }

  /** Those that wait behind it, the last one first: they wait no longer. */
  takeBehind(held: HeldMessage): HeldMessage[] {
    const group = this.#groups.get(nameOf(held))
    if (group === undefined) return []
    if (group.turn === held) return group.waiting.splice(0).reverse()
    const at = group.waiting.indexOf(held)
    return at < 0 ? [] : group.waiting.splice(at + 1).reverse()
  }

  /** All that wait, the last of each group first. */
  takeAll(): HeldMessage[] {
    return [...this.#groups.values()].flatMap(({ waiting }) => waiting.splice(0).reverse())
  }

  /** It comes again after this long. */
  stop(held: HeldMessage, delayMs: number): void {
    const comesAt = monotonicMs() + delayMs
    const slackMs = this.#receiveMs + 10_000
    this.#stopped.set(nameOf(held), { from: comesAt - slackMs, to: comesAt + slackMs })
  }

  /** A message of its group got through. */
  goOn(held: HeldMessage): void {
    if (this.#stopped.size > 0) this.#stopped.delete(nameOf(held))
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
function nameOf({ groupId }: HeldMessage): string {
  return groupId ?? ''
}
