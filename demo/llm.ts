/** An LLM that sends a bill for each call: the witness, outside the database. The plot decides when it answers. */
import { setTimeout as sleep } from 'node:timers/promises'
import { type Provider, startProvider } from '../tools/provider.ts'
import { effectOf } from './summary.ts'

/** Until it answers. */
export const LLM_MS = 60

/** What it will be paid for, of some rows. */
export interface Bill {
  readonly calls: number
  /** One that came with a key it knew was answered from memory, and is free. */
  readonly billed: number
  readonly rowsPaidTwice: number
}

export class Llm {
  readonly #provider: Provider
  readonly #holds: Map<string, () => Promise<unknown>>

  private constructor(provider: Provider, holds: Map<string, () => Promise<unknown>>) {
    this.#provider = provider
    this.#holds = holds
  }

  static async start(): Promise<Llm> {
    const holds = new Map<string, () => Promise<unknown>>()
    return new Llm(await startProvider({ answerAfter: ({ effect }) => holds.get(effect)?.() ?? sleep(LLM_MS) }), holds)
  }

  get url(): string {
    return this.#provider.url
  }

  /** Calls about this row are billed at once, and answered when what this returns for each has resolved. */
  hold(id: number, until: () => Promise<unknown>): void {
    this.#holds.set(effectOf(id), until)
  }

  bill(ids: readonly number[]): Bill {
    const { calls, happened } = this.#provider
    const billed = ids.map((id) => happened(effectOf(id)))
    return {
      calls: ids.reduce((sum, id) => sum + calls.filter(({ effect }) => effect === effectOf(id)).length, 0),
      billed: billed.reduce((sum, times) => sum + times, 0),
      rowsPaidTwice: billed.filter((times) => times > 1).length,
    }
  }

  /** Of these rows, those about which it was asked again with a key that it knew. */
  knownByKey(ids: readonly number[]): number {
    const { calls } = this.#provider
    return ids.filter((id) => calls.some(({ effect, happened }) => effect === effectOf(id) && !happened)).length
  }

  async stop(): Promise<void> {
    await this.#provider.stop()
  }
}
