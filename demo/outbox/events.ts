/** The two destinations of a payment, and the event. */
import type { NatsConnection } from '@nats-io/transport-node'
import { NatsTransport } from '../../src/nats/index.ts'
import { destination } from '../../src/outbox/index.ts'

export const SOURCE = '/shop'
export const TYPE = 'order.paid'
export const STREAM = 'orders'
export const SUBJECT = 'orders.paid'

export const billing = destination('billing', { transport: 'sqs' })
export const shipping = destination('shipping', { transport: 'nats' })

export interface Paid {
  readonly order: number
}

/** The table that each receiver writes to. Neither has a constraint that would hide a second row. */
export const TABLES = { billing: 'invoice', shipping: 'shipment' } as const
export type Receiver = keyof typeof TABLES

export function toStream(connection: NatsConnection): NatsTransport {
  return new NatsTransport(connection, { subject: SUBJECT, timeout: '1s' })
}
