// An outbox on a database of its own, destinations that a test configures, and relays that are stopped with the test.
import type { TestContext } from 'node:test'
import { withTransaction } from '../../src/index.ts'
import {
  type Delivery,
  type Destination,
  type DestinationOptions,
  destination,
  type NewEvent,
  Outbox,
  type OutgoingEvent,
  type Relay,
  type SendResult,
  type Transport,
} from '../../src/outbox/index.ts'
import type { WorkerOptions } from '../../src/worker/options.ts'
import { type Scene, scene } from '../support/worker.ts'

export interface OutboxScene extends Scene {
  readonly outbox: Outbox
  /** Declares and configures one. */
  destination(name: string, options?: Partial<DestinationOptions>): Promise<Destination>
  /** In a transaction of its own. */
  publish(event: Partial<NewEvent>): Promise<string>
  publishMany(events: readonly Partial<NewEvent>[]): Promise<string[]>
  relay(deliveries: readonly Delivery[], options?: WorkerOptions): Relay
}

export async function outboxScene(t: TestContext): Promise<OutboxScene> {
  const setting = await scene(t)
  const { db, lh, undo } = setting
  const outbox = new Outbox(lh, { source: '/test' })
  const whole = (event: Partial<NewEvent>): NewEvent => ({ type: 'order.paid', data: { n: 1 }, ...event })
  return {
    ...setting,
    outbox,
    destination: async (name, options = {}) => {
      const made = destination(name, { transport: 'in_process', backoff: { first: 1, max: 1 }, ...options })
      await outbox.configure([made])
      return made
    },
    publish: (event) => withTransaction(db.pool, (tx) => outbox.publish(tx, whole(event))),
    publishMany: (events) => withTransaction(db.pool, (tx) => outbox.publishMany(tx, events.map(whole))),
    relay: (deliveries, options = {}) => {
      const made = outbox.relay(deliveries, { signals: [], poll: 20, ...options })
      const running = made.run()
      running.catch(() => {}) // Reported below.
      undo.after(async () => {
        await made.stop({ grace: 0 })
        await running
      })
      return made
    },
  }
}

export const ACKNOWLEDGED: SendResult = { outcome: 'acknowledged' }

export interface Scripted extends Transport {
  /** The batches that were sent, in order. */
  readonly batches: OutgoingEvent[][]
  /** The numbers in the data of all events that were sent. */
  numbers(): number[]
  readonly closed: () => boolean
}

/** A transport that answers as the test wants it. */
export function scripted(
  answer: (events: readonly OutgoingEvent[], signal: AbortSignal) => unknown = () => ACKNOWLEDGED,
  limits: Partial<Transport['limits']> = {},
): Scripted {
  const batches: OutgoingEvent[][] = []
  let isClosed = false
  return {
    name: 'in_process',
    limits: { batchEvents: 100, batchBytes: 2 ** 24, eventBytes: 2 ** 20, ...limits },
    acknowledgement: 'A test.',
    ordering: 'key',
    dedupeWindowMs: 0,
    batches,
    closed: () => isClosed,
    numbers: () => batches.flat().map(numberOf),
    sizeOf: ({ data }) => data?.length ?? 0,
    send: async (events, signal) => {
      batches.push([...events])
      const answers = await answer(events, signal)
      return (Array.isArray(answers) ? answers : events.map(() => answers)) as SendResult[]
    },
    close: async () => {
      isClosed = true
    },
  }
}

export function numberOf({ data }: Pick<OutgoingEvent, 'data'>): number {
  return JSON.parse(Buffer.from(data!).toString()).n
}
