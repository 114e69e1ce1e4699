/** A function of this process as a destination: for one service that is its own receiver, and for tests. */
import { checkFunction } from '../core/check.ts'
import { describeError } from '../core/error-description.ts'
import { listIn } from '../core/lists.ts'
import { Fatal, RetryAfter } from '../core/steering.ts'
import type { OutgoingEvent, SendResult, Transport } from './transport.ts'

/**
 * Each event is acknowledged when the function has returned. If it throws Fatal, the event is refused for good; any other error
 * refuses it for now. Events of different keys are received at the same time, those of one key one after the other.
 */
export function inProcess(receive: (event: OutgoingEvent, signal: AbortSignal) => unknown): Transport {
  checkFunction('inProcess', receive)
  return {
    name: 'in_process',
    limits: { batchEvents: 1_000, batchBytes: 2 ** 26, eventBytes: 2 ** 21 },
    acknowledgement: 'The function has returned.',
    ordering: 'key',
    dedupeWindowMs: 0,
    takesRuns: true,
    sizeOf: ({ data }) => data?.length ?? 0,
    send: (events, signal) => inLines(events, receive, signal),
    close: async () => {},
  }
}

const ACKNOWLEDGED: SendResult = { outcome: 'acknowledged' }
const BEHIND: SendResult = { outcome: 'refused_for_now', reason: 'an earlier event of its key was refused' }

/** A line for each key: an event is received after the one before it was, and after a refusal no more of its key are. */
async function inLines(
  events: readonly OutgoingEvent[],
  receive: (event: OutgoingEvent, signal: AbortSignal) => unknown,
  signal: AbortSignal,
): Promise<SendResult[]> {
  const results = new Array<SendResult>(events.length).fill(BEHIND)
  const lines = new Map<string, number[]>()
  for (const [place, { key }] of events.entries()) listIn(lines, key).push(place)
  const receiveLine = async (line: readonly number[]) => {
    for (const place of line) {
      if (signal.aborted) return
      try {
        await receive(events[place]!, signal)
        results[place] = ACKNOWLEDGED
      } catch (error) {
        results[place] = refusalOf(error)
        return
      }
    }
  }
  await Promise.all(Array.from(lines.values(), receiveLine))
  return results
}

function refusalOf(error: unknown): SendResult {
  const { name, message } = describeError(error)
  const reason = `${name}: ${message}`
  if (error instanceof Fatal) return { outcome: 'refused_for_good', reason }
  if (error instanceof RetryAfter) return { outcome: 'refused_for_now', reason, retryAfterMs: error.delayMs }
  return { outcome: 'refused_for_now', reason }
}
