/** How large this demo is, and how fast. */

/** Orders by the version of the workflow that was deployed when they were placed. */
export const ORDERS = { 1: 16, 2: 8 }
export const ALL_ORDERS = ORDERS[1] + ORDERS[2]
/** Shipped in the night, while no worker runs. */
export const SHIPPED_EARLY = 8
/** This order is never shipped. */
export const LOST_ORDER = 13

/** Runs that a worker process is in the middle of at a time. */
export const CONCURRENCY = 4
/** How long a call of a service takes. */
export const CALL_MS = 40
/** The default is 30s, too long to watch. */
export const LEASE = '2s'
/** A customer waits this long for the shipment. In life it would be a week. */
export const PATIENCE_MS = { lost: 10_000, others: 600_000 }

/** For the reader to catch up. Nothing else depends on it. */
export const BEAT_MS = 600
/** Longer than this, and something is wrong. */
export const SECONDS_AT_MOST = 115

export type Version = keyof typeof ORDERS

export function ordersOf(version: Version): number[] {
  const first = version === 1 ? 1 : 1 + ORDERS[1]
  return Array.from({ length: ORDERS[version] }, (_, index) => first + index)
}
