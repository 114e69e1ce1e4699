/** The consumer processes, seen from the demo. SQS decides which gets what, so they report what they are working on. */
import { Child, Staff } from '../child.ts'
import { Gate } from '../gate.ts'
import type { FromConsumer, Orders, Settled } from './messages.ts'

const PROGRAM = new URL('consumer.ts', import.meta.url)

export interface CrewOptions {
  /** Consumers start meanwhile. */
  readonly orders: Promise<Orders>
  /** A consumer ended that should not have. */
  onLost(error: Error): void
}

export class Crew extends Staff<ConsumerProcess> {
  /** The reported outcome of each delivery, in this order. A killed consumer reports nothing. */
  readonly settled: Settled[] = []

  constructor(options: CrewOptions) {
    super((name) => new ConsumerProcess(name, options, (settled) => this.settled.push(settled)), 'consumer')
  }

  /** Those of these rows whose message SQS delivered a second time, and for which that delivery has ended. */
  deliveredAgain(ids: readonly number[]): Settled[] {
    const again = this.settled.filter(({ receiveCount }) => receiveCount > 1)
    return ids.flatMap((id) => again.find((settled) => settled.id === id) ?? [])
  }
}

export class ConsumerProcess {
  readonly name: string
  readonly ready: Promise<void>
  readonly settled: Settled[] = []
  readonly #asked: number[] = []
  readonly #child: Child<FromConsumer, Orders>
  readonly #ready = new Gate()
  readonly #onSettled: (settled: Settled) => void

  constructor(name: string, { orders, onLost }: CrewOptions, onSettled: (settled: Settled) => void) {
    this.name = name
    this.ready = this.#ready.opened
    this.#onSettled = onSettled
    const hear = (message: FromConsumer) => this.#hear(message)
    this.#child = new Child(name, { program: PROGRAM, args: [], env: {}, onLost, hear })
    orders.then(
      (told) => this.#child.send(told),
      () => {},
    )
  }

  /** For which of these rows it has asked the LLM: one entry for each call. */
  asked(ids: readonly number[]): number[] {
    return this.#asked.filter((id) => ids.includes(id))
  }

  pause(): Promise<void> {
    return this.#child.pause()
  }

  wake(): Promise<void> {
    return this.#child.wake()
  }

  end(signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
    return this.#child.end(signal)
  }

  #hear(message: FromConsumer): void {
    if (message.type === 'asking') this.#asked.push(message.id)
    else if (message.type === 'settled') {
      this.settled.push(message)
      this.#onSettled(message)
    } else this.#ready.knock()
  }
}
