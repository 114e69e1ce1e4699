/** Carries out the cards of the deck. */
import { CUT_REPLIES, type FaultCard } from './deck.ts'
import { cutConnections, cutReply, delayReplies, freeze, refuse } from './network.ts'
import { cancelSome, pauseOne, redriveSome } from './operator.ts'
import { kill, killProducer, rollingRestart, stop, terminate } from './process.ts'
import type { Scene } from './scene.ts'
import { crash, exhaustConnections, failOver, holdSnapshot, lockTable, readOnly, terminateBackends } from './server.ts'

interface Fault {
  run(card: FaultCard, scene: Scene): Promise<boolean>
  /** The database is unreachable, or behaves differently, meanwhile. */
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
  'cut connections': { run: cutConnections, hampers: true },
  freeze: { run: freeze, hampers: true, alone: true },
  refuse: { run: refuse, hampers: true, alone: true },
  'delay replies': { run: delayReplies, hampers: true, alone: true },
  ...Object.fromEntries(
    Object.keys(CUT_REPLIES).map((of) => [
      `cut reply of ${of}`,
      { run: (_: FaultCard, scene: Scene) => cutReply(of as keyof typeof CUT_REPLIES, scene), hampers: true },
    ]),
  ),
  'terminate backends': { run: terminateBackends, hampers: true },
  crash: { run: crash, hampers: true, alone: true },
  failover: { run: failOver, hampers: true, alone: true },
  'lock table briefly': { run: lockTable, hampers: true, alone: true },
  'lock table for long': { run: lockTable, hampers: true, alone: true },
  'read only': { run: readOnly, hampers: true, alone: true },
  'no connection left': { run: exhaustConnections, hampers: true, alone: true },
  'hold a snapshot': { run: holdSnapshot },
  pause: { run: pauseOne },
  cancel: { run: cancelSome },
  redrive: { run: redriveSome },
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
