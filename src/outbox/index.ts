/** `leasehold/outbox`: events that leave the database, and the relay that sends them. */
export { attributesOf, jsonOf } from './cloud-event.ts'
export type { Delays } from './delays.ts'
export { type Destination, type DestinationOptions, destination } from './destination.ts'
export type { NewEvent } from './event.ts'
export { inProcess } from './in-process.ts'
export { type Lag, Outbox, type OutboxOptions } from './outbox.ts'
export type { MissingEvent, ReceiptOrJson, ReconcileOptions, Reconciliation } from './reconcile.ts'
export { type Delivery, type DeliveryOptions, deliver, type Relay } from './relay.ts'
export type { ReplayFilter } from './replay.ts'
export {
  DestinationUnavailable,
  type OutgoingEvent,
  type SendResult,
  type Transport,
  type TransportLimits,
} from './transport.ts'
