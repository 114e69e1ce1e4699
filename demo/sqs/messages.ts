/** What a consumer process is told first, and what it tells the demo. */
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

/** What became of one delivery, in the words of the library's own events. */
export interface Settled {
  readonly outcome: 'handled' | 'already_handled' | 'failed' | 'dead_letter' | 'returned'
  /** The row. A message that cannot be read has none. */
  readonly id: number | undefined
  /** The how manieth delivery it was. */
  readonly receiveCount: number
  /** Why it is dead, or comes again. */
  readonly reason: string | undefined
}
