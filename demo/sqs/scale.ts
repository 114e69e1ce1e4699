/** How large this demo is, and how fast. */

/** What happens to which of them. */
export const ROWS = {
  twice: numbers(1, 28),
  interrupted: numbers(29, 48),
  early: 49,
  lost: 50,
}
export const ALL_ROWS = [...ROWS.twice, ...ROWS.interrupted, ROWS.early, ROWS.lost]
export const POISON = 'please summarise row 7'

export const CONSUMERS = 3
/** Messages that a consumer process is in the middle of at a time. */
export const CONCURRENCY = 4
/** After this, SQS redelivers a message whose consumer stopped extending it. The default is 30s. */
export const VISIBILITY = '2s'
/** After this, recovery sends a message for a row that no consumer has claimed. The default is 15m. */
export const RESEND_AFTER = '3s'
/** Then a message goes to the dead-letter queue, for any cause. */
export const DELIVERIES_AT_MOST = 20

/** For the reader to catch up. Nothing else depends on it. */
export const BEAT_MS = 500
/** Longer than this, and something is wrong. */
export const SECONDS_AT_MOST = 300

function numbers(from: number, to: number): number[] {
  return Array.from({ length: to - from + 1 }, (_, index) => from + index)
}
