/** How large the demo is, and how fast. */

/** Paid while a worker is killed, while one is paused, and each time in between, when nothing happens. */
export const ORDERS = { calm: 40, killed: 140, paused: 140 }
export const ALL_ORDERS = 3 * ORDERS.calm + ORDERS.killed + ORDERS.paused
export const PAY_EVERY_MS = 16

/** For the reader to catch up. Nothing else depends on it. */
export const BEAT_MS = 1_000

/** This customer's address cannot be used. */
export const BROKEN_ORDER = 13

/** Receipts that a worker process is in the middle of at a time. */
export const CONCURRENCY = 3
/** The default is 30s, too long to watch. */
export const LEASE = '2s'

/** Longer than this, and something is wrong. */
export const SECONDS_AT_MOST = 300

/** How long the printing of a receipt takes. */
export function printMs(orderId: number): number {
  return 90 + ((orderId * 37) % 100)
}
