/** Where events go, for every process of a run. */
import { destination } from '../../src/outbox/index.ts'
import { POLICIES } from './plan.ts'

// Attempts are not what is tested: a crash may spend one, and there are many.
const OPTIONS = { maxAttempts: 1_000, backoff: { first: '100ms', max: '1s' }, keep: '90d' } as const

export const DESTINATIONS = {
  ledger: destination('ledger', { ...OPTIONS, transport: 'nats', onDeadLetter: POLICIES.ledger }),
  stock: destination('stock', { ...OPTIONS, transport: 'nats', onDeadLetter: POLICIES.stock }),
  audit: destination('audit', { ...OPTIONS, transport: 'sqs_fifo', onDeadLetter: POLICIES.audit }),
}

/** Each is a stream. */
export const STREAMS = ['ledger', 'stock'] as const
/** Each is a subject of a stream, with one message at a time: that is how a receiver keeps the order of its keys. */
export const LANES = 2

export function laneOf(key: string): number {
  return [...key].reduce((sum, char) => sum + char.charCodeAt(0), 0) % LANES
}

/** Larger events are refused for good. */
export const MAX_BYTES = 4_096
export const POISON_BYTES = 6_000
