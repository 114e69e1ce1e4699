/** SQS in front of Postgres: `leasehold/sqs`. Needs `@aws-sdk/client-sqs`, which nothing else here imports. */

export type { Answer, DeadReason, Handle, ReturnReason } from '../consumer/disposition.ts'
export type { ConsumerEvents as SqsConsumerEvents, Counts, MessageInfo } from '../consumer/events.ts'
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
export { NotSentError, type Unsent } from '../core/errors.ts'
export { SqsConsumer } from './consumer.ts'
export type { SqsMessage } from './message.ts'
export type { SqsConsumerOptions } from './options.ts'
export { type PublisherCounts, SqsPublisher, type SqsPublisherOptions } from './publisher.ts'
export type { SqsClient } from './request.ts'
export { SqsTransport, type SqsTransportOptions } from './transport.ts'
