/** Where messages go that can never be handled: with all they had, and with their reason where there is room for it. */
import { maybeAboutOneEntry } from './answer.ts'
import type { HeldMessage } from './held.ts'
import type { SqsQueue } from './queue.ts'

export const REASON = 'leasehold.reason'
/** SQS takes no more on a message. */
const ATTRIBUTES_AT_MOST = 10

export async function sendDeadLetter(queue: SqsQueue, url: string, held: HeldMessage, reason: string): Promise<void> {
  const { text: body, attributes, trace, id: messageId, groupId } = held
  const letter = { url, body, attributes, trace, messageId, groupId }
  if (Object.keys(attributes).length >= ATTRIBUTES_AT_MOST) return queue.sendDeadLetter(letter)
  const noted = { ...attributes, [REASON]: { DataType: 'String', StringValue: reason } }
  try {
    await queue.sendDeadLetter({ ...letter, attributes: noted })
  } catch (error) {
    if (!maybeAboutOneEntry(error)) throw error
    await queue.sendDeadLetter(letter) // It was as large as a message can be.
  }
}
