/** How large this demo is, and how fast. */

export const QUEUE = 'accounts'
export const ACCOUNTS = 60
/** New jobs in each tenth of a second. */
export const JOBS_PER_TENTH = 8
export const WORKERS = 4
/** One is replaced after a crash, and all of them by the deploy. */
export const ALL_WORKERS = 2 * WORKERS + 1
/** How long a handler takes. */
export const WORK_MS = 15
/** The same, shortly before its worker is killed or stopped: then the signal finds it in the middle of a job. */
export const SLOW_WORK_MS = 400

/** Of jobs and of seats. The default is 30s, and 10 s for a seat: too long to watch. */
export const LEASE_MS = 2_500
/** By hand: how often a worker reads who is there, and after which silence it counts another as dead. */
export const BY_HAND = { beatMs: 400, deadAfterMs: 1_500, batch: 10 }

/** For the reader to catch up. Nothing else depends on it. */
export const BEAT_MS = 900
export const FRAME_MS = 120
/** Longer than this, and something is wrong. */
export const SECONDS_AT_MOST = 240
