/** What transports to brokers share: rounds that keep the order of a key, and reasons that hold no credentials. */
import { describeError } from '../core/error-description.ts'
import { safeText } from '../core/safe-text.ts'
import type { OutgoingEvent, SendResult } from './transport.ts'

const REASON_CHARS = 500

/**
 * Sends the first event of each key, then the second of each, and so on: an event is sent after the one before it was
 * acknowledged. After a refusal the rest of its key is not sent. A relay has one event of a key in a batch, so there is one round.
 */
export async function inRounds(
  events: readonly OutgoingEvent[],
  sendRound: (round: readonly OutgoingEvent[]) => Promise<readonly SendResult[]>,
): Promise<SendResult[]> {
  const results: SendResult[] = new Array(events.length)
  const seen = new Map<string, number>()
  const rounds: number[][] = []
  events.forEach(({ key }, index) => {
    const at = seen.get(key) ?? 0
    seen.set(key, at + 1)
    rounds[at] ??= []
    rounds[at].push(index)
  })
  const refused = new Set<string>()
  for (const [number, round] of rounds.entries()) {
    const sent = round.filter((index) => !refused.has(events[index]!.key))
    for (const index of round) results[index] = BEHIND
    if (sent.length === 0) continue
    const answers = await roundResults(
      number,
      sent.map((index) => events[index]!),
      sendRound,
    )
    sent.forEach((index, position) => {
      results[index] = answers[position]!
      if (answers[position]!.outcome !== 'acknowledged') refused.add(events[index]!.key)
    })
  }
  return results
}

const BEHIND: SendResult = { outcome: 'refused_for_now', reason: 'an earlier event of its key was refused' }

/** Only the first round may throw: after it some events are acknowledged, and their results count. */
async function roundResults(
  number: number,
  events: readonly OutgoingEvent[],
  sendRound: (round: readonly OutgoingEvent[]) => Promise<readonly SendResult[]>,
): Promise<readonly SendResult[]> {
  try {
    return await sendRound(events)
  } catch (error) {
    if (number === 0) throw error
    return events.map(() => ({ outcome: 'refused_for_now', reason: reasonOf(error) }))
  }
}

/** Name and message of an error, without what may be a password: reasons are stored and shown. */
export function reasonOf(error: unknown): string {
  const { name, message } = describeError(error)
  return withoutCredentials(`${name}: ${message}`)
}

export function withoutCredentials(text: string): string {
  const hidden = text
    .replaceAll(/\/\/[^\s/@]+@/g, '//…@')
    .replaceAll(/\b(pass(?:word)?|token|secret|signature|credential|jwt|nkey|seed)(["']?\s*[=:]\s*)\S+/gi, '$1$2…')
  return safeText(hidden, REASON_CHARS)
}
