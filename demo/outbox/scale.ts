/** How large this demo is, and how fast. */

/** Orders paid in each act. */
export const ACTS = { till: 60, relay: 60, receivers: 60, brokers: 60 }
export const ORDERS = Object.values(ACTS).reduce((sum, each) => sum + each, 0)

/** Payments that a till is in the middle of at a time. */
export const LANES = 6
/** After this, another relay sends what a dead one held. The default is 30s. */
export const LEASE = '2s'
export const SWEEP = '500ms'
/** After this, the brokers redeliver a message whose receiver is gone. The default is 30s. */
export const VISIBILITY = '2s' as const

/** For the reader to catch up. Nothing else depends on it. */
export const BEAT_MS = 500
/** Longer than this, and something is wrong. */
export const SECONDS_AT_MOST = 115
