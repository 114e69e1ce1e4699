/** The services outside the database: stock, bank, mail. They record every call, so they are the witness. */
import { setTimeout as sleep } from 'node:timers/promises'
import { type Call, type Provider, startProvider } from '../../tools/provider.ts'
import { effectOf, type Service } from './checkout.ts'
import { CALL_MS } from './scale.ts'

export class Services {
  readonly #provider: Provider
  readonly #held: Held

  private constructor(provider: Provider, held: Held) {
    this.#provider = provider
    this.#held = held
  }

  static async start(): Promise<Services> {
    const held = new Held()
    return new Services(await startProvider({ answerAfter: (call) => held.answer(call) }), held)
  }

  get url(): string {
    return this.#provider.url
  }

  get calls(): readonly Call[] {
    return this.#provider.calls
  }

  /** From now on these calls take effect and get no answer: the worst moment to die. */
  hold(service: Service): void {
    this.#held.services.add(service)
  }

  /** Their calls wait no more. */
  callersAreDead(): void {
    this.#held.calls.length = 0
  }

  /** Later calls are answered. */
  answerAgain(service: Service): void {
    this.#held.services.delete(service)
  }

  /** How many calls wait for their answer. */
  heldBy(service: Service): number {
    return this.#held.calls.filter(({ effect }) => effect.startsWith(`${service}/`)).length
  }

  /** How often it happened to this order. */
  times(service: Service, order: number): number {
    return this.#provider.happened(effectOf(service, order))
  }

  /** Calls whose key was known: they were answered, and nothing happened. */
  get repeated(): number {
    return this.calls.filter(({ happened }) => !happened).length
  }

  stop(): Promise<void> {
    return this.#provider.stop()
  }
}

class Held {
  readonly services = new Set<Service>()
  readonly calls: Call[] = []

  async answer(call: Call): Promise<void> {
    if (this.services.has(call.effect.split('/')[0] as Service)) {
      this.calls.push(call)
      await new Promise(() => {})
    }
    await sleep(CALL_MS)
  }
}
