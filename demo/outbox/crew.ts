/** The processes of this demo, seen from it: tills, relays and receivers. */
import { Child, Staff } from '../child.ts'
import { Gate } from '../gate.ts'
import { until } from '../program.ts'
import type { Command, FromChild, Places } from './messages.ts'

const PROGRAMS = { till: 'till.ts', relay: 'relay.ts', billing: 'receiver.ts', shipping: 'receiver.ts' } as const
export type Role = keyof typeof PROGRAMS

export interface CrewOptions {
  /** Processes start meanwhile. */
  readonly places: Promise<Places>
  /** A process ended that should not have. */
  onLost(error: Error): void
}

export class Crew {
  readonly #staff: Readonly<Record<Role, Staff<Hand>>>

  constructor(options: CrewOptions) {
    const staffOf = (role: Role) => new Staff((name) => new Hand(name, role, options), role)
    this.#staff = {
      till: staffOf('till'),
      relay: staffOf('relay'),
      billing: staffOf('billing'),
      shipping: staffOf('shipping'),
    }
  }

  /** Resolves when it runs. */
  hire(role: Role): Promise<Hand> {
    return this.#staff[role].hire()
  }

  async stop(): Promise<void> {
    for (const staff of Object.values(this.#staff)) await staff.stop()
  }

  async killAll(): Promise<void> {
    await Promise.all(Object.values(this.#staff).map((staff) => staff.killAll()))
  }
}

export class Hand {
  readonly name: string
  readonly ready: Promise<void>
  /** Where it stands still, and in the middle of how many. */
  readonly held = new Map<string, number>()
  #paidUpTo = 0
  readonly #ready = new Gate()
  readonly #child: Child<FromChild, Command>

  constructor(name: string, role: Role, { places, onLost }: CrewOptions) {
    this.name = name
    this.ready = this.#ready.opened
    const hear = (message: FromChild) => this.#hear(message)
    this.#child = new Child(name, {
      program: new URL(PROGRAMS[role], import.meta.url),
      args: [],
      env: {},
      onLost,
      hear,
    })
    places.then(
      (known) => this.#child.send({ type: 'begin', places: known }),
      () => {},
    )
  }

  send(command: Command): void {
    this.#child.send(command)
  }

  /** Resolves when the last of these orders is paid. */
  async pay(first: number, last: number, signal: AbortSignal): Promise<void> {
    this.send({ type: 'pay', first, last })
    await until(() => this.#paidUpTo === last, signal)
  }

  /** Resolves when it stands still at so many places. */
  async holds(places: number, signal: AbortSignal): Promise<void> {
    await until(() => this.held.size >= places, signal)
  }

  end(signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
    return this.#child.end(signal)
  }

  #hear(message: FromChild): void {
    if (message.type === 'ready') this.#ready.knock()
    else if (message.type === 'paid') this.#paidUpTo = message.last
    else this.held.set(message.at, (this.held.get(message.at) ?? 0) + message.items)
  }
}
