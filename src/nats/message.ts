import type { Delivery, Message } from '../consumer/held.ts'
import type { Msg, MsgHdrs } from './client.ts'
import { positionOf } from './jetstream.ts'

/** The first value of each header, by its name as sent. */
export type NatsAttributes = Readonly<Record<string, string>>

/** A message as a handler sees it. Its id is that of `Nats-Msg-Id`, if it has one. */
export type NatsMessage<Body = unknown> = Message<Body, NatsAttributes>

export interface NatsDelivery extends Delivery {
  readonly attributes: NatsAttributes
  readonly subject: string
  readonly data: Uint8Array
  readonly headers: MsgHdrs | undefined
}

export const MSG_ID = 'Nats-Msg-Id'
/** As the CloudEvents binding for NATS spells the extension. */
export const PARTITION_KEY = 'ce-partitionkey'

/** undefined: it is no delivery of JetStream's. */
export function toDelivery(msg: Msg): NatsDelivery | undefined {
  const receipt = msg.reply ?? ''
  const position = positionOf(receipt)
  if (position === undefined) return undefined
  const { headers } = msg
  const attributes = Object.fromEntries([...(headers ?? [])].map(([name, [value]]) => [name, value ?? '']))
  const { stream, sequence, storedAt, deliveries } = position
  return {
    // With the time: a stream that was deleted and made anew counts from 1 again.
    id: headers?.get(MSG_ID) || `${stream}/${sequence}/${storedAt}`,
    receipt,
    text: msg.string(),
    attributes,
    groupId: decodeHeader(headers?.get(PARTITION_KEY) ?? '') || undefined,
    receiveCount: deliveries,
    trace: headers?.get('traceparent') || undefined,
    subject: msg.subject,
    data: msg.data,
    headers,
  }
}

/** As the bindings of CloudEvents encode text in headers: all but printable ASCII, spaces, quotes and % are percent-encoded. */
export function encodeHeader(value: string): string {
  return value.toWellFormed().replaceAll(/[^!#$&-~]+/g, encodeURIComponent)
}

/** Of any sender: what is not encoded stays as it is. */
export function decodeHeader(value: string): string {
  try {
    return decodeURIComponent(value)
  } catch {
    return value
  }
}
