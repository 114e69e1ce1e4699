/** The part of a worker that knows the ring: a member with a seat if the worker stays, a visitor if it leaves soon. */
import { Loop } from '../runtime/loop.ts'
import type { Events } from './events.ts'
import type { ClaimedLines } from './fetcher-options.ts'
import { type Ownership, RingMember, type RingMemberOptions } from './ring-member.ts'
import { UnownedLines } from './unowned-lines.ts'

export interface RingPartOptions extends Omit<RingMemberOptions, 'events'> {
  /** It runs until it is stopped. */
  readonly stays: boolean
  readonly events: Events
}

export class RingPart implements ClaimedLines {
  readonly #member: RingMember | undefined
  readonly #lines: ClaimedLines
  readonly #loop: Loop
  readonly #tick: () => Promise<number>
  readonly #events: Events
  #starting: Promise<void> | undefined
  #isStopped = false

  constructor(options: RingPartOptions) {
    const { stays, lane, queues, onChange, events } = options
    this.#events = events
    const ringEvents = {
      gained: events.emit.bind(events, 'gained'),
      lost: events.emit.bind(events, 'lost'),
      waiting: events.unowned.bind(events),
    }
    this.#member = stays ? new RingMember({ ...options, events: ringEvents }) : undefined
    const part = this.#member ?? new UnownedLines(lane, queues, onChange)
    this.#lines = part
    this.#tick = () => part.tick()
    this.#loop = new Loop(this.#tick, events.about('renewing the seat on the ring'))
  }

  get lines(): ClaimedLines['lines'] {
    return this.#lines.lines
  }

  get owned(): ClaimedLines['owned'] {
    return this.#lines.owned
  }

  owns(queue: string, key: string): Ownership | undefined {
    return this.#member?.owns(queue, key)
  }

  /** Resolves when it knows which queues are on the ring, or that the database does not answer. */
  async start(): Promise<void> {
    if (this.#isStopped) return
    this.#starting = this.#tick().then(
      () => {},
      (error) => this.#events.problem('looking at the ring', error),
    )
    await this.#starting
    this.#loop.start()
  }

  /** Others take over at once, while handlers go on here. */
  async stop(): Promise<void> {
    this.#isStopped = true
    await this.#starting // A seat that it is just taking is given back, too.
    await this.#loop.stop()
    await this.#member?.leave().catch(() => {})
  }

  heard(message: string): void {
    if (this.#member?.concerns(message)) this.#loop.nudge()
  }
}
