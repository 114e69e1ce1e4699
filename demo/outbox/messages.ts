/** The messages between the demo and its processes. */
import type { SQSClientConfig } from '@aws-sdk/client-sqs'

/** Where everything is. */
export interface Places {
  readonly shopUrl: string
  readonly officeUrl: string
  readonly sqs: SQSClientConfig
  readonly queueUrl: string
  readonly natsUrls: string[]
  readonly isUnprotected: boolean
}

export type Command =
  | { readonly type: 'begin'; readonly places: Places }
  /** Stand still at the next checkpoint: the worst moment to die. */
  | { readonly type: 'hold' }
  /** To a till: pay these orders, from the first to the last. */
  | { readonly type: 'pay'; readonly first: number; readonly last: number }
  /** To a till without an outbox: the reply to the next publish is lost. */
  | { readonly type: 'lose a reply' }

export type FromChild =
  | { readonly type: 'ready' }
  /** It stands still in the middle of these. */
  | { readonly type: 'holding'; readonly at: string; readonly items: number }
  /** The last of the orders that it was to pay is paid. */
  | { readonly type: 'paid'; readonly last: number }
