/**
 * What a run has done before, for code that runs again from its start.
 *
 * Results are found by type, name and number of occurrence, and delivered in the order in which they were recorded: the
 * continuation of an earlier one runs before a later one is delivered. So parallel branches advance as they did the first time.
 */
import type { Entry, EntryType } from './journal.ts'

/** A call of the code, and what is on record of it. */
export interface Call {
  readonly type: EntryType
  readonly name: string
  readonly nth: number
  readonly entry: Entry | undefined
}

export class Replay {
  readonly #byCall = new Map<string, Entry>()
  /** Those that have a result, by place. */
  readonly #ended: readonly Entry[]
  readonly #unreached = new Set<string>()
  readonly #count = new Map<string, number>()
  readonly #asked = new Map<number, (entry: Entry) => void>()
  #next = 0
  /** The continuation of the last one that was delivered may not have run yet. */
  #isFollowed = false

  constructor(entries: readonly Entry[]) {
    // The last one of a call counts.
    for (const entry of entries) this.#byCall.set(keyOf(entry), entry)
    this.#ended = [...this.#byCall.values()].filter(hasEnded).sort((one, other) => one.place - other.place)
    // Compensations are reached after the code has ended.
    for (const [key, { type }] of this.#byCall) if (type !== 'compensation') this.#unreached.add(key)
  }

  /** The next call of this name. */
  call(type: EntryType, name: string): Call {
    const counted = `${type}\0${name}`
    const nth = (this.#count.get(counted) ?? 0) + 1
    this.#count.set(counted, nth)
    const key = keyOf({ type, name, nth })
    this.#unreached.delete(key)
    return { type, name, nth, entry: this.#byCall.get(key) }
  }

  /** Resolves when it is this result's turn. */
  deliver(entry: Entry): Promise<Entry> {
    return new Promise((resolve) => {
      this.#asked.set(entry.place, resolve)
      if (!this.#isFollowed) this.#deliverNext()
    })
  }

  /** The code has asked for results whose turn has not come. */
  get isDelivering(): boolean {
    return this.#asked.size > 0 && this.#asked.has(this.#ended[this.#next]?.place ?? -1)
  }

  /** The code has asked for results, but not for the one whose turn it is. */
  get isStuck(): boolean {
    return this.#asked.size > 0 && !this.isDelivering
  }

  /** Names on record that the code has not reached. If it waits for another result, the one whose turn it is. */
  get unreached(): string[] {
    if (this.isStuck) return [this.#ended[this.#next]!.name]
    return [...this.#unreached].map((key) => key.split('\0')[1]!)
  }

  #deliverNext(): void {
    const entry = this.#ended[this.#next]
    const resolve = entry === undefined ? undefined : this.#asked.get(entry.place)
    if (resolve === undefined) return
    this.#next++
    this.#asked.delete(entry!.place)
    resolve(entry!)
    // Also if no other was asked for: another branch may ask in this turn, before the continuation of this one has run.
    this.#isFollowed = true
    setImmediate(() => {
      this.#isFollowed = false
      this.#deliverNext()
    })
  }
}

export function hasEnded({ state }: Entry): boolean {
  return state === 'recorded' || state === 'failed'
}

function keyOf({ type, name, nth }: Pick<Call, 'type' | 'name' | 'nth'>): string {
  return `${type}\0${name}\0${nth}`
}
