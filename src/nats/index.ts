/** NATS JetStream in front of Postgres: `leasehold/nats`. Needs `@nats-io/transport-node`, which nothing else here imports. */

export type { Answer, DeadReason, Handle, ReturnReason } from '../consumer/disposition.ts'
export type { ConsumerEvents as NatsConsumerEvents, Counts, MessageInfo } from '../consumer/events.ts'
export {
  type AnsweringHandle,
  type IntoQueues,
  inOneTransaction,
  inOneUpdate,
  inTwoPhases,
  intoQueue,
  intoQueues,
  type MessageKey,
  type OneUpdate,
  type TwoPhases,
} from '../consumer/handlers.ts'
export { byEvent, eventOf, type ReceivedEvent } from '../consumer/received-event.ts'
export { NatsConsumer } from './consumer.ts'
export type { NatsMessage } from './message.ts'
export type { NatsConsumerOptions } from './options.ts'
export { NatsTransport, type NatsTransportOptions } from './transport.ts'
