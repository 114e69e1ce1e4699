/**
 * The transactional outbox: an event commits with your change, or not at all, and then reaches each destination at least once, in
 * the order of its key. decisions/0035 has the argument.
 */
import { checkText } from '../core/check.ts'
import { InvalidOptionError } from '../core/errors.ts'
import { checkOptions } from '../core/options.ts'
import type { OnDeadLetter } from '../core/queue.ts'
import { settlingConflicts } from '../db/conflict.ts'
import { type Connection, connectionOf } from '../db/connection.ts'
import { numericArray } from '../db/parameters.ts'
import type { Tx } from '../db/tx.ts'
import { inTurn } from '../db/tx-line.ts'
import { storeConfiguration } from '../jobs/configuration.ts'
import type { ByOption } from '../jobs/operator.ts'
import type { WorkerOptions } from '../worker/options.ts'
import type { Destination } from './destination.ts'
import { encodeEvent, eventColumns, type NewEvent } from './event.ts'
import { PUBLISH, READ_LAG, REMOVE_DESTINATION, STORE_DESTINATIONS } from './outbox.sql.ts'
import { type ReconcileOptions, type Reconciliation, reconcile } from './reconcile.ts'
import { type Delivery, Relay } from './relay.ts'
import { type ReplayFilter, replay } from './replay.ts'

const MAX_EVENTS = 10_000

export interface OutboxOptions {
  /** The CloudEvents source of events that name none, as a URI reference such as `/orders`. */
  readonly source?: string
}

export interface Lag {
  readonly destination: string
  readonly transport: string
  readonly onDeadLetter: OnDeadLetter
  readonly paused: boolean
  /** Events that are not acknowledged yet. */
  readonly unsent: number
  /** How long the oldest of them has waited. Undefined: there is none. */
  readonly oldestMs: number | undefined
  /** Events that could not be sent, until they are redriven or past their retention. */
  readonly deadLetters: number
}

/** Part of a Leasehold; what an Outbox needs of it. */
export interface UsesLeasehold {
  migrate(): Promise<void>
  close(): Promise<void>
}

export class Outbox {
  readonly #connection: Connection
  readonly #source: string | undefined

  constructor(leasehold: UsesLeasehold, options: OutboxOptions = {}) {
    this.#connection = connectionOf('Outbox.leasehold', leasehold)
    checkOptions('Outbox', options, ['source'])
    this.#source = options.source === undefined ? undefined : checkText('Outbox.source', options.source, 1_000)
  }

  /**
   * Stores these destinations for every producer, SQL included, with their queues and kinds. Call it in a deploy step. Events that
   * are published after it has committed go to them. Destinations that it does not name stay.
   */
  async configure(destinations: readonly Destination[]): Promise<void> {
    if (!Array.isArray(destinations) || destinations.some((each) => each?.queue?.ordered !== true)) {
      throw new InvalidOptionError('configure', "it must be a list of destinations: [destination('name', { … })]")
    }
    if (new Set(destinations.map(({ name }) => name)).size < destinations.length) {
      throw new InvalidOptionError('configure', 'two destinations have the same name')
    }
    const { lane } = this.#connection
    // The queues first: an event must not find a destination whose queue is not ordered yet.
    await storeConfiguration(
      lane,
      destinations.flatMap(({ kind, queue }) => [kind, queue] as never[]),
      {},
    )
    await lane.run(STORE_DESTINATIONS, [
      destinations.map(({ name }) => name),
      destinations.map(({ transport }) => transport),
      destinations.map(({ types }) => JSON.stringify(types)),
      numericArray(destinations.map(({ kind }) => kind.maxAttempts)),
    ])
  }

  /** No event goes there from now on. Those that wait are still sent; cancel them if they must not be. */
  async remove(name: string): Promise<'removed' | 'not_found'> {
    const removed = await this.#connection.lane.run(REMOVE_DESTINATION, [checkText('name', name, 100)])
    return removed.length > 0 ? 'removed' : 'not_found'
  }

  /** Publishes an event in your open transaction: it exists exactly when that commits. Returns its id. One round trip. */
  async publish(tx: Tx, event: NewEvent): Promise<string> {
    return (await this.#publish(tx, [encodeEvent('event', event, this.#source)]))[0]!
  }

  /** Publishes up to 10,000 events by one statement. Those of one key keep their order. Returns their ids. */
  async publishMany(tx: Tx, events: readonly NewEvent[]): Promise<string[]> {
    if (!Array.isArray(events)) throw new InvalidOptionError('events', 'it must be a list of events')
    if (events.length > MAX_EVENTS) throw new InvalidOptionError('events', `a call takes at most ${MAX_EVENTS}`)
    if (events.length === 0) return []
    return this.#publish(
      tx,
      events.map((event, index) => encodeEvent(`events[${index}]`, event, this.#source)),
    )
  }

  /** A relay for these destinations. Nothing happens before its run(). */
  relay(deliveries: readonly Delivery[], options?: Omit<WorkerOptions, 'concurrency'>): Relay {
    return new Relay(this.#connection, deliveries, options)
  }

  /** How far behind each destination is. */
  async lag(): Promise<Lag[]> {
    const rows = await this.#connection.lane.run<
      'name' | 'transport' | 'on_dead_letter' | 'paused' | 'unsent' | 'dead_letters' | 'oldest_ms'
    >(READ_LAG, [])
    return rows.map((row) => ({
      destination: row.name!,
      transport: row.transport!,
      onDeadLetter: row.on_dead_letter as OnDeadLetter,
      paused: row.paused === 't',
      unsent: Number(row.unsent),
      oldestMs: row.oldest_ms === null ? undefined : Number(row.oldest_ms),
      deadLetters: Number(row.dead_letters),
    }))
  }

  /**
   * Sends stored events to one destination once more, with the same ids, behind what already waits for their keys. A thousand at a
   * time, each in a transaction of its own: if it fails half way, call it again, and receivers drop the copies. Returns how many.
   */
  replay(filter: ReplayFilter, options: ByOption = {}): Promise<number> {
    return replay(this.#connection.lane, filter, options)
  }

  /**
   * Compares the events of a range with what the receiver of a destination has: those that were sent and are missing there, the
   * delay from publish to receipt, and the duplicates. A thousand events at a time; it changes nothing.
   */
  reconcile(options: ReconcileOptions): Promise<Reconciliation> {
    return reconcile(this.#connection.lane, options)
  }

  async #publish(tx: Tx, events: ReturnType<typeof encodeEvent>[]): Promise<string[]> {
    const lane = this.#connection.lane.within(tx)
    await inTurn(tx, () => settlingConflicts(false, () => lane.run(PUBLISH, eventColumns(events))))
    return events.map(({ id }) => id)
  }
}
