/** An LLM that bills each call: the witness, outside the database. The plot decides when it replies. */
import { setTimeout as sleep } from 'node:timers/promises'
import { type Provider, startProvider } from '../tools/provider.ts'
import { effectOf } from './summary.ts'

/** Resolves when it may reply. */
export const LLM_MS = 60

/** The billed calls about some rows. */
export interface Bill {
  readonly calls: number
  /** A call with a known key is answered from memory, and free. */
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

  /** Calls about this row are billed at once, and answered when the promise returned for each has resolved. */
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

  /** Those of these rows for which it was called again with a known key. */
  knownByKey(ids: readonly number[]): number {
    const { calls } = this.#provider
    return ids.filter((id) => calls.some(({ effect, happened }) => effect === effectOf(id) && !happened)).length
  }

  async stop(): Promise<void> {
    await this.#provider.stop()
  }
}
