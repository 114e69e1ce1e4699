/** SQS in front of Postgres: `leasehold/sqs`. Needs `@aws-sdk/client-sqs`, which nothing else here imports. */
export { NotSentError, type Unsent } from '../core/errors.ts'
export { SqsConsumer } from './consumer.ts'
export type { Answer, DeadReason, Handle, ReturnReason } from './disposition.ts'
export type { Counts, MessageInfo, SqsConsumerEvents } from './events.ts'
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
} from './handlers.ts'
export type { SqsMessage } from './held.ts'
export type { SqsConsumerOptions } from './options.ts'
export { type PublisherCounts, SqsPublisher, type SqsPublisherOptions } from './publisher.ts'
export type { SqsClient } from './request.ts'
