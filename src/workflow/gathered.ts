/**
 * Small questions to the database, asked together: while one statement is under way, what is asked meanwhile is the next. So many
 * runs at a time cost few statements, and one run alone waits for nothing.
 */
import { setImmediate } from 'node:timers/promises'

interface Question<Item, Answer> {
  readonly item: Item
  resolve(answer: Answer): void
  reject(error: unknown): void
}

/** Of one statement. An item that is larger goes alone. */
interface Most<Item> {
  readonly items: number
  readonly bytes?: number
  /** About how many bytes it has. Default: none. */
  sizeOf?(item: Item): number
}

export class Gathered<Item, Answer> {
  readonly #most: Most<Item>
  readonly #send: (items: readonly Item[]) => Promise<readonly Answer[]>
  #queue: Question<Item, Answer>[] = []
  #isSending = false

  /** `send` answers in the order of the items. If it throws, none of them has an answer. */
  constructor(most: Most<Item>, send: (items: readonly Item[]) => Promise<readonly Answer[]>) {
    this.#most = most
    this.#send = send
  }

  ask(item: Item): Promise<Answer> {
    return new Promise((resolve, reject) => {
      this.#queue.push({ item, resolve, reject })
      if (!this.#isSending) void this.#sendAll()
    })
  }

  async #sendAll(): Promise<void> {
    this.#isSending = true
    // What is asked in the same turn of the event loop goes along.
    await setImmediate()
    while (this.#queue.length > 0) {
      const batch = this.#queue.splice(0, this.#howMany())
      try {
        const answers = await this.#send(batch.map(({ item }) => item))
        for (const [index, { resolve }] of batch.entries()) resolve(answers[index]!)
      } catch (error) {
        for (const { reject } of batch) reject(error)
      }
    }
    this.#isSending = false
  }

  #howMany(): number {
    const { items, bytes = Number.POSITIVE_INFINITY, sizeOf = () => 0 } = this.#most
    let size = 0
    for (let count = 0; count < Math.min(items, this.#queue.length); count++) {
      size += sizeOf(this.#queue[count]!.item)
      if (size > bytes) return Math.max(1, count)
    }
    return items
  }
}
