import type { MessageAttributeValue } from '@aws-sdk/client-sqs'
import type { Message } from '../consumer/held.ts'

export type SqsAttributes = Readonly<Record<string, MessageAttributeValue>>

/** A message as a handler sees it. */
export type SqsMessage<Body = unknown> = Message<Body, SqsAttributes>
