/** Carries out the cards of the deck. */
import type { FaultCard } from './deck.ts'
import { kill, killProducer, rollingRestart, stop, terminate } from './process.ts'
import type { Scene } from './scene.ts'

interface Fault {
  run(card: FaultCard, scene: Scene): Promise<boolean>
  /** The database cannot be reached, or does not answer as usual, meanwhile. */
  readonly hampers?: boolean
  /** It changes the server: one at a time. */
  readonly alone?: boolean
}

const CARRIED_OUT: Readonly<Record<string, Fault>> = {
  'SIGKILL worker': { run: (card, scene) => kill(card, scene, 'worker') },
  'SIGKILL hand': { run: (card, scene) => kill(card, scene, 'hand') },
  'SIGKILL producer': { run: killProducer },
  'SIGSTOP worker': { run: stop },
  'SIGTERM worker': { run: terminate },
  'rolling restart': { run: rollingRestart },
}

export class Striker {
  readonly #scene: Scene
  #turn: Promise<unknown> = Promise.resolve()
  readonly #underWay = new Set<Promise<void>>()

  constructor(scene: Scene) {
    this.#scene = scene
  }

  /** Begins it. */
  strike(card: FaultCard): void {
    const fault = CARRIED_OUT[card.fault]!
    const done = fault.alone ? this.#turn.then(() => this.#run(card, fault)) : this.#run(card, fault)
    if (fault.alone) this.#turn = done
    const watched: Promise<void> = done.finally(() => this.#underWay.delete(watched))
    this.#underWay.add(watched)
  }

  /** All that was begun is over. */
  async over(): Promise<void> {
    await Promise.all(this.#underWay)
  }

  async #run(card: FaultCard, { run, hampers = false }: Fault): Promise<void> {
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
