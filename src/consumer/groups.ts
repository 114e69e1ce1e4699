/**
 * The groups of a FIFO queue: one message of each at a time, in the order of receipt.
 *
 * A turn ends when the message has ended or expired: then the broker may redeliver it, here or elsewhere, and a handler that hangs
 * must not block its group.
 *
 * A broker such as SQS counts a delivery of each message that it hands out, handled or not. So that messages behind one that keeps failing do
 * not use up their deliveries with it, the receiver asks for one message at a time around its redelivery, and it is not
 * returned while an open receive could bring the others along.
 */
import { monotonicMs } from '../core/timer.ts'
import type { HeldMessage } from './held.ts'

interface Group {
  /** The message whose turn it is. */
  turn: HeldMessage
  readonly waiting: HeldMessage[]
}

interface Window {
  readonly from: number
  readonly to: number
}

export class Groups {
  readonly #groups = new Map<string, Group>()
  /** When the first message of each stopped group is redelivered. */
  readonly #stopped = new Map<string, Window>()
  readonly #receiveMs: number

  /** `receiveMs`: how long an open receive may last. */
  constructor(receiveMs: number) {
    this.#receiveMs = receiveMs
  }

  /** Returns whether it is its turn; otherwise it waits. */
  enter(held: HeldMessage): boolean {
    const group = this.#groups.get(nameOf(held))
    if (group === undefined) this.#groups.set(nameOf(held), { turn: held, waiting: [] })
    else group.waiting.push(held)
    return group === undefined
  }

  /** Ends its turn, if it has it. Returns the next message. */
  leave(held: HeldMessage): HeldMessage | undefined {
    const group = this.#groups.get(nameOf(held))
    if (group?.turn !== held) return undefined
    const next = group.waiting.shift()
    if (next === undefined) this.#groups.delete(nameOf(held))
    else group.turn = next
    return next
  }

  /** Removes it from the waiting messages. Returns whether it was one. */
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

  /** Removes and returns the messages that wait behind it, last first. */
  takeBehind(held: HeldMessage): HeldMessage[] {
    const group = this.#groups.get(nameOf(held))
    if (group === undefined) return []
    if (group.turn === held) return group.waiting.splice(0).reverse()
    const at = group.waiting.indexOf(held)
    return at < 0 ? [] : group.waiting.splice(at + 1).reverse()
  }

  /** All waiting messages, the last of each group first. */
  takeAll(): HeldMessage[] {
    return [...this.#groups.values()].flatMap(({ waiting }) => waiting.splice(0).reverse())
  }

  /** It is redelivered after this long. */
  stop(held: HeldMessage, delayMs: number): void {
    const comesAt = monotonicMs() + delayMs
    const slackMs = this.#receiveMs + 10_000
    this.#stopped.set(nameOf(held), { from: comesAt - slackMs, to: comesAt + slackMs })
  }

  /** A message of its group was handled. */
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

/** A queue without group ids is one group. */
function nameOf({ delivery }: HeldMessage): string {
  return delivery.groupId ?? ''
}
