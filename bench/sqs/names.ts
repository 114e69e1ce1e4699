/** The parts of the consumers that the benchmark needs without their packages. */
import type { SQSClientConfig } from '@aws-sdk/client-sqs'

/** sqs-consumer with a handler for a whole batch, which it deletes in one call; or with one for each message. */
export const CONTENDERS = ['leasehold', 'sqs-consumer, by batches', 'sqs-consumer, one by one'] as const
export type ContenderName = (typeof CONTENDERS)[number]

export interface Orders {
  readonly contender: ContenderName
  readonly sqs: SQSClientConfig
  readonly queueUrl: string
  readonly database: string
  /** Messages held at a time. */
  readonly concurrency: number
  readonly connections: number
  /** In the queue. The first of them warm up. */
  readonly messages: number
  readonly warmUp: number
  /** How long a handler waits, by its row. */
  readonly waitMs: readonly [least: number, most: number]
}

export interface Taken {
  readonly seconds: number
  readonly nodeMicros: number
  /** To SQS. */
  readonly requests: number
}
