/** The first message to a consumer process, and its messages to the demo. */
import type { SQSClientConfig } from '@aws-sdk/client-sqs'

export interface Orders {
  readonly databaseUrl: string
  readonly sqs: SQSClientConfig
  readonly queueUrl: string
  readonly deadLetterQueueUrl: string
  /** Where the LLM is. */
  readonly llm: string
  readonly isUnguarded: boolean
}

export type FromConsumer =
  | { readonly type: 'ready' }
  /** It is about to ask the LLM about this row. */
  | { readonly type: 'asking'; readonly id: number }
  | ({ readonly type: 'settled' } & Settled)

/** The outcome of one delivery, in the words of the library's own events. */
export interface Settled {
  readonly outcome: 'handled' | 'already_handled' | 'failed' | 'dead_letter' | 'returned'
  /** The row. A message that cannot be read has none. */
  readonly id: number | undefined
  /** The number of the delivery. */
  readonly receiveCount: number
  /** Why it is dead, or is redelivered. */
  readonly reason: string | undefined
}
