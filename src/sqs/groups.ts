import type { HeldMessage } from './held.ts'

/** The groups of a FIFO queue: one message of each at a time, in the order in which they came. */
export class Groups {
  /** Behind the one whose turn it is. */
  readonly #waiting = new Map<string, HeldMessage[]>()

  /** Whether it is its turn; otherwise it waits. */
  enter(held: HeldMessage): boolean {
    const { groupId } = held
    if (groupId === undefined) return true
    const waiting = this.#waiting.get(groupId)
    if (waiting === undefined) this.#waiting.set(groupId, [])
    else waiting.push(held)
    return waiting === undefined
  }

  /** Its turn is over. Answers whose turn it is now. */
  leave({ groupId }: HeldMessage): HeldMessage | undefined {
    if (groupId === undefined) return undefined
    const next = this.#waiting.get(groupId)?.shift()
    if (next === undefined) this.#waiting.delete(groupId)
    return next
  }

  /** Those that wait behind it, the last one first: they wait no longer. */
  takeBehind({ groupId }: HeldMessage): HeldMessage[] {
    const waiting = groupId === undefined ? undefined : this.#waiting.get(groupId)
    return waiting?.splice(0).reverse() ?? []
  }

  /** All that wait, the last of each group first. */
  takeAll(): HeldMessage[] {
    return [...this.#waiting.values()].flatMap((waiting) => waiting.splice(0).reverse())
  }
}
