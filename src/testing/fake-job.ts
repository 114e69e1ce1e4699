/** The job that runJob() gives to a handler. What a worker would store is kept in memory. */
import { AsyncLocalStorage } from 'node:async_hooks'
import { EffectUnknownError, InvalidOptionError } from '../core/errors.ts'
import { checkOptions } from '../core/options.ts'
import { NotDone } from '../core/steering.ts'
import { encodeSafely } from '../core/storable.ts'
import type { Tx } from '../db/tx.ts'
import { effectKey } from '../effects/key.ts'
import { checkName, decode, encode } from '../effects/ledger.ts'
import type { Once, OnceOptions } from '../effects/once.ts'
import { dateOf } from '../jobs/stored-time.ts'
import type { BatchJob, HeldJob } from '../worker/job.ts'

type Effect = (tx?: Tx) => unknown

export class FakeJob implements BatchJob {
  readonly input: unknown
  readonly notes: unknown[] = []
  /** Results of effects, by name. */
  readonly effects: Map<string, unknown>
  /** By complete(tx). */
  completed: { readonly result: unknown } | undefined
  /** What a batch handler decided. */
  decided: { readonly result: unknown } | { readonly error: unknown } | undefined
  readonly #held: HeldJob
  /** Effects that run, so that a second call waits for the first. */
  readonly #running = new Map<string, Promise<unknown>>()
  /** Names of the effects around the code that asks. */
  readonly #around = new AsyncLocalStorage<readonly string[]>()

  constructor(held: HeldJob, input: unknown, effects: Readonly<Record<string, unknown>>) {
    this.#held = held
    this.input = input
    this.effects = new Map(Object.entries(effects))
  }

  get id() {
    return this.#held.claimed.jobId
  }

  get kind() {
    return this.#held.claimed.kind
  }

  get queue() {
    return this.#held.claimed.queue
  }

  get attempt() {
    return this.#held.claimed.attempt
  }

  get maxAttempts() {
    return this.#held.claimed.maxAttempts
  }

  get claimId() {
    return this.#held.claimed.claimId
  }

  get generation() {
    return this.#held.claimed.generation
  }

  get partitionKey() {
    return this.#held.claimed.partitionKey
  }

  get metadata() {
    const { metadata } = this.#held.claimed
    return metadata === null ? null : JSON.parse(metadata)
  }

  get enqueuedAt() {
    return dateOf(this.#held.claimed.createdAt)
  }

  get signal() {
    return this.#held.signal
  }

  async complete(_tx: Tx, result?: unknown): Promise<void> {
    this.completed ??= { result }
  }

  readonly once = (async (name: string, effect: Effect, options: OnceOptions & { readonly tx?: Tx } = {}) => {
    checkName(name)
    if (typeof effect !== 'function') throw new InvalidOptionError('effect', 'it must be a function')
    checkOptions('once', options, ['ifUnknown', 'tx'])
    if (this.#around.getStore()?.includes(name)) {
      throw new InvalidOptionError('name', `once(${JSON.stringify(name)}) was called inside its own effect`)
    }
    if (this.effects.has(name)) return this.effects.get(name)
    const running = this.#running.get(name) ?? this.#begin(name, effect, options)
    this.#running.set(name, running)
    try {
      return await running
    } finally {
      this.#running.delete(name)
    }
  }) as Once

  effectKey(name: string): string {
    return effectKey(this.#held.claimed, name)
  }

  async assertLease(_tx: Tx): Promise<void> {}

  async progress(note: unknown): Promise<void> {
    this.notes.push(JSON.parse(encodeSafely(note)))
  }

  succeed(result?: unknown): void {
    this.decided ??= { result }
  }

  fail(error: unknown): void {
    this.decided ??= { error }
  }

  async #begin(name: string, effect: Effect, { tx, ifUnknown }: OnceOptions & { tx?: Tx }): Promise<unknown> {
    const since = new Date().toISOString()
    try {
      // Decoded, as the next attempt would get it.
      const around = [...(this.#around.getStore() ?? []), name]
      const result = decode(encode(await this.#around.run(around, () => effect(tx))))
      this.effects.set(name, result)
      return result
    } catch (error) {
      if (error instanceof NotDone) throw error.cause ?? error
      if (tx !== undefined || ifUnknown === 'retry') throw error
      throw new EffectUnknownError(this.id, name, since, { cause: error })
    }
  }
}
