/** Sends messages that can never be handled to the dead-letter queue: with all attributes, and their reason if it fits. */

import type { HeldMessage } from '../consumer/held.ts'
import { maybeAboutOneEntry } from './answer.ts'
import type { DeadLetter, SqsQueue } from './queue.ts'

const REASON = 'leasehold.reason'
/** The most attributes that SQS accepts on a message. */
const ATTRIBUTES_AT_MOST = 10

export async function sendDeadLetter(queue: SqsQueue, url: string, held: HeldMessage, reason: string): Promise<void> {
  const { text: body, trace, id: messageId, groupId } = held.delivery
  const attributes = held.delivery.attributes as DeadLetter['attributes']
  const letter = { url, body, attributes, trace, messageId, groupId }
  if (Object.keys(attributes).length >= ATTRIBUTES_AT_MOST) return queue.sendDeadLetter(letter)
  const noted = { ...attributes, [REASON]: { DataType: 'String', StringValue: reason } }
  try {
    await queue.sendDeadLetter({ ...letter, attributes: noted })
  } catch (error) {
    if (!maybeAboutOneEntry(error)) throw error
    await queue.sendDeadLetter(letter) // Without the reason: the message has the maximum size.
  }
}
