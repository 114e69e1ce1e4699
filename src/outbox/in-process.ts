/** A function of this process as a destination: for one service that is its own receiver, and for tests. */
import { checkFunction } from '../core/check.ts'
import { describeError } from '../core/error-description.ts'
import { Fatal, RetryAfter } from '../core/steering.ts'
import type { OutgoingEvent, SendResult, Transport } from './transport.ts'

/**
 * Each event is acknowledged when the function has returned. If it throws Fatal, the event is refused for good; any other error
 * refuses it for now. Events of different keys are received at the same time.
 */
export function inProcess(receive: (event: OutgoingEvent, signal: AbortSignal) => unknown): Transport {
  checkFunction('inProcess', receive)
  return {
    name: 'in_process',
    limits: { batchEvents: 1_000, batchBytes: 2 ** 26, eventBytes: 2 ** 21 },
    acknowledgement: 'The function has returned.',
    ordering: 'key',
    dedupeWindowMs: 0,
    sizeOf: ({ data }) => data?.length ?? 0,
    send: (events, signal) => Promise.all(events.map((event) => resultOf(() => receive(event, signal)))),
    close: async () => {},
  }
}

async function resultOf(receive: () => unknown): Promise<SendResult> {
  try {
    await receive()
    return { outcome: 'acknowledged' }
  } catch (error) {
    const { name, message } = describeError(error)
    const reason = `${name}: ${message}`
    if (error instanceof Fatal) return { outcome: 'refused_for_good', reason }
    if (error instanceof RetryAfter) return { outcome: 'refused_for_now', reason, retryAfterMs: error.delayMs }
    return { outcome: 'refused_for_now', reason }
  }
}
