/**
 * The relay: a worker that sends events to their destinations.
 *
 *   claim ─► batch ─► load the events ─► transport.send() ─► acknowledged ─► complete
 *
 * A job is completed after its event was acknowledged, never before. If the process dies in between, the job is swept and the event
 * is sent again with the same id: a duplicate, never a loss. The next event of a key starts when the one before was acknowledged,
 * since its job does (decisions/0034), so a batch has one event of each key, or a run of a key where the transport takes runs.
 *
 * Each destination has its own queue and its own slots: a dead one fills its own and no other. While it is away the relay keeps
 * the batches that it has, tries again with growing delays, and claims no more.
 */
import { checkInteger } from '../core/check.ts'
import { InvalidOptionError } from '../core/errors.ts'
import { checkOptions } from '../core/options.ts'
import { sleep } from '../core/timer.ts'
import type { Connection } from '../db/connection.ts'
import { isOutage } from '../db/outage.ts'
import type { StopOptions } from '../runtime/lifecycle.ts'
import type { WorkerOptions } from '../worker/options.ts'
import { Worker } from '../worker/worker.ts'
import type { Destination } from './destination.ts'
import { READ_DESTINATIONS } from './outbox.sql.ts'
import { Sender } from './sender.ts'
import type { Transport } from './transport.ts'

const LOOK_AGAIN_MS = 1_000

export interface DeliveryOptions {
  /** Batches on their way at a time. Default: 4. */
  readonly concurrency?: number
  /** Events in a batch at most. Default: what the transport takes, and 500 at most. */
  readonly size?: number
}

/** A destination and the transport that serves it in this process. */
export interface Delivery {
  readonly destination: Destination
  readonly transport: Transport
  readonly concurrency: number
  readonly size: number
}

/** Attaches a transport to a destination, in the relay's process only. */
export function deliver(destination: Destination, transport: Transport, options: DeliveryOptions = {}): Delivery {
  if (destination?.queue?.ordered !== true) {
    throw new InvalidOptionError('destination', "declare it with destination('name', { … })")
  }
  const of = `deliver(${JSON.stringify(destination.name)})`
  checkOptions(of, options, ['concurrency', 'size'])
  if (typeof transport?.send !== 'function' || typeof transport.limits?.batchEvents !== 'number') {
    throw new InvalidOptionError(`${of}.transport`, 'it must be a transport, such as inProcess(fn)')
  }
  if (transport.name !== destination.transport) {
    throw new InvalidOptionError(
      `${of}.transport`,
      `it is ${JSON.stringify(transport.name)}, but the destination is declared with ${JSON.stringify(destination.transport)}`,
    )
  }
  const { batchEvents } = transport.limits
  return {
    destination,
    transport,
    concurrency: checkInteger(`${of}.concurrency`, options.concurrency ?? 4, 1, 1_000),
    size: checkInteger(`${of}.size`, options.size ?? Math.min(500, batchEvents), 1, Math.min(1_000, batchEvents)),
  }
}

export class Relay {
  /** Emits the events of the jobs that send, and counts them. */
  readonly worker: Worker
  readonly #connection: Connection
  readonly #deliveries: readonly Delivery[]
  readonly #stopping = new AbortController()

  constructor(
    connection: Connection,
    deliveries: readonly Delivery[],
    options: Omit<WorkerOptions, 'concurrency'> = {},
  ) {
    if (!Array.isArray(deliveries) || deliveries.length === 0) {
      throw new InvalidOptionError('relay', 'it must be a list of at least one: [deliver(destination, transport)]')
    }
    if ((options as WorkerOptions).concurrency !== undefined) {
      throw new InvalidOptionError('relay.concurrency', 'each destination has its own; pass it to deliver()')
    }
    this.#connection = connection
    this.#deliveries = deliveries
    const handlers = deliveries.map((delivery) => new Sender(connection, delivery).handler)
    const concurrency = deliveries.reduce((sum, each) => sum + each.concurrency, 0)
    this.worker = new Worker(connection, handlers, { ...options, concurrency })
  }

  /**
   * Sends events until a signal or stop() ends it, then closes the transports. It runs once. Rejects when a destination is not
   * configured, or is configured with another transport.
   */
  async run(): Promise<void> {
    try {
      await this.#check()
      await this.worker.run()
    } finally {
      await Promise.all(this.#deliveries.map(({ transport }) => transport.close()))
    }
  }

  /** Claims no more, lets batches end within the grace period, and releases the rest. */
  async stop(options?: StopOptions): Promise<void> {
    this.#stopping.abort()
    await this.worker.stop(options)
  }

  /** Waits for a database that is away. */
  async #check(): Promise<void> {
    const names = this.#deliveries.map(({ destination }) => destination.name)
    const read = () => this.#connection.lane.run<'name' | 'transport'>(READ_DESTINATIONS, [names])
    const { signal } = this.#stopping
    while (!signal.aborted) {
      const rows = await read().catch((error) => {
        if (!isOutage(error)) throw error
      })
      if (rows !== undefined) return this.#compare(new Map(rows.map((row) => [row.name!, row.transport!])))
      await sleep(LOOK_AGAIN_MS, signal)
    }
  }

  #compare(stored: ReadonlyMap<string, string>): void {
    for (const { destination, transport } of this.#deliveries) {
      const configured = stored.get(destination.name)
      const of = `destination(${JSON.stringify(destination.name)})`
      if (configured === undefined)
        throw new InvalidOptionError(of, 'it is not in the database; outbox.configure() it first')
      if (configured !== transport.name) {
        throw new InvalidOptionError(
          `${of}.transport`,
          `the database has ${JSON.stringify(configured)}, this relay has ${JSON.stringify(transport.name)}; outbox.configure() it`,
        )
      }
    }
  }
}
