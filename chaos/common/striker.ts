/** Carries out planned faults, and notes what each did. */
import type { Witness } from './witness.ts'

export interface Fault<Card, Scene> {
  /** Returns whether it had an effect. */
  run(card: Card, scene: Scene): Promise<boolean>
  /** The database is unreachable, or behaves differently, meanwhile. */
  readonly hampers?: boolean
  /** It changes a server: one at a time. */
  readonly alone?: boolean
}

export class Striker<
  Card extends { readonly fault: string },
  Scene extends { readonly witness: Witness; readonly signal: AbortSignal },
> {
  readonly #faults: Readonly<Record<string, Fault<Card, Scene>>>
  readonly #scene: Scene
  #turn: Promise<unknown> = Promise.resolve()
  readonly #underWay = new Set<Promise<void>>()

  constructor(faults: Readonly<Record<string, Fault<Card, Scene>>>, scene: Scene) {
    this.#faults = faults
    this.#scene = scene
  }

  /** Begins it. */
  strike(card: Card): void {
    const fault = this.#faults[card.fault]!
    const done = fault.alone ? this.#turn.then(() => this.#run(card, fault)) : this.#run(card, fault)
    if (fault.alone) this.#turn = done
    const watched: Promise<void> = done.finally(() => this.#underWay.delete(watched))
    this.#underWay.add(watched)
  }

  /** All that was begun is over. */
  async over(): Promise<void> {
    await Promise.all(this.#underWay)
  }

  async #run(card: Card, { run, hampers = false }: Fault<Card, Scene>): Promise<void> {
    const { witness, signal } = this.#scene
    if (signal.aborted) return
    const from = Date.now()
    let bit = false
    let error: string | undefined
    try {
      bit = await run(card, this.#scene)
    } catch (thrown) {
      // The harness, too, uses a server that breaks.
      error = String(thrown)
    }
    witness.write('fault', { fault: card.fault, from, to: Date.now(), bit, hampers, ...(error ? { error } : {}) })
  }
}
