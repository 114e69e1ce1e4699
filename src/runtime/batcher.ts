/**
 * Small requests, sent in batches: entries that arrive while one is under way form the next, and full ones go side by side, as do
 * entries that a hanging request has kept waiting.
 *
 * An entry that was refused, or had no answer, is sent again after a while, if it is still wanted. Entries are sent one by one
 * only when one of them may have spoilt the whole request: to answer a busy server with ten times as many requests would keep it
 * busy.
 */
import { setMaxListeners } from 'node:events'
import { backoffMs } from '../core/backoff.ts'
import { Alarm, monotonicMs, sleep } from '../core/timer.ts'
import { BatchDelay } from './batch-delay.ts'

const SIDE_BY_SIDE = 16
const ATTEMPTS = 8
const BACKOFF = { firstMs: 100, maxMs: 5_000 }
/** Most requests are answered sooner than that. */
const PATIENCE_MS = 200

/** Why one entry of a batch was refused. forGood: a retry would not help. */
export interface Refusal {
  readonly index: number
  readonly code: string
  readonly message?: string | undefined
  readonly forGood: boolean
}

interface Entry<Item> {
  readonly item: Item
  readonly since: number
  readonly done: (done: boolean) => void
}

export interface BatcherParts<Item> {
  /** Entries in a request at most. */
  readonly most: number
  readonly send: (items: readonly Item[]) => Promise<readonly Refusal[]>
  /** Whether a request was refused for something that may be wrong with one entry only. */
  readonly isAboutOneEntry: (error: unknown) => boolean
  /** Asked each time before an item is sent. */
  readonly isWanted: (item: Item) => boolean
  /** Whether others may be added any moment. */
  readonly isMoreToCome: () => boolean
  readonly onAnswered: () => void
  readonly onProblem: (error: unknown) => void
}

export class Batcher<Item> {
  readonly #parts: BatcherParts<Item>
  readonly #gathering: BatchDelay
  readonly #hurry = new AbortController()
  readonly #late = new Alarm(() => this.#start(), { keepsAlive: true })
  #queue: Entry<Item>[] = []
  #underWay = 0

  constructor(parts: BatcherParts<Item>) {
    this.#parts = parts
    this.#gathering = new BatchDelay(
      () => this.#start(),
      () => this.#queue.length < parts.most && parts.isMoreToCome(),
    )
    setMaxListeners(0, this.#hurry.signal) // One for each batch that waits to be sent again.
  }

  /** Whether it was done. Never rejects. */
  add(item: Item): Promise<boolean> {
    return new Promise((done) => {
      this.#queue.push({ item, since: monotonicMs(), done })
      this.#gathering.nudge()
    })
  }

  /** What fails from now on is not tried again. */
  giveUp(): void {
    this.#hurry.abort()
  }

  #start(): void {
    const isWorthOne = () =>
      this.#underWay === 0 || this.#queue.length >= this.#parts.most || this.#lateAt() <= monotonicMs()
    while (this.#queue.length > 0 && this.#underWay < SIDE_BY_SIDE && isWorthOne()) {
      void this.#insist(this.#queue.splice(0, this.#parts.most), 1)
    }
    this.#late.set(this.#underWay < SIDE_BY_SIDE ? this.#lateAt() : Number.POSITIVE_INFINITY)
  }

  #lateAt(): number {
    const [oldest] = this.#queue
    return oldest === undefined ? Number.POSITIVE_INFINITY : oldest.since + PATIENCE_MS
  }

  async #insist(entries: readonly Entry<Item>[], attempt: number): Promise<void> {
    const wanted = entries.filter(({ item }) => this.#parts.isWanted(item))
    for (const entry of entries) if (!wanted.includes(entry)) entry.done(false)
    if (wanted.length === 0) return
    const { again, oneByOne } = await this.#try(wanted)
    if (again.length === 0) return
    if (attempt >= ATTEMPTS || this.#hurry.signal.aborted) {
      for (const { done } of again) done(false)
      return
    }
    await sleep(backoffMs(attempt, BACKOFF), this.#hurry.signal)
    if (oneByOne) for (const entry of again) await this.#insist([entry], attempt + 1)
    else await this.#insist(again, attempt + 1)
  }

  /** Returns what is worth another attempt. */
  async #try(entries: readonly Entry<Item>[]): Promise<{ again: readonly Entry<Item>[]; oneByOne: boolean }> {
    this.#underWay++
    try {
      const refusals = new Map(
        (await this.#parts.send(entries.map(({ item }) => item))).map((refusal) => [refusal.index, refusal]),
      )
      if (refusals.size === 0) this.#parts.onAnswered()
      const again = entries.filter(({ done }, index) => {
        const refusal = refusals.get(index)
        if (refusal === undefined || refusal.forGood) done(refusal === undefined)
        if (refusal !== undefined) this.#parts.onProblem(new Error(`one of a batch was refused: ${refusal.code}`))
        return refusal !== undefined && !refusal.forGood
      })
      return { again, oneByOne: false }
    } catch (error) {
      this.#parts.onProblem(error)
      return { again: entries, oneByOne: entries.length > 1 && this.#parts.isAboutOneEntry(error) }
    } finally {
      this.#underWay--
      this.#gathering.nudge()
    }
  }
}
