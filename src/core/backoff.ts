export interface Backoff {
  /** Delay after the first failure, in milliseconds. Default: 1 s. */
  readonly firstMs?: number
  /** No delay is longer, jitter included. Default: 1 h. */
  readonly maxMs?: number
}

/**
 * How long to wait after failed attempt number `attempt` (1, 2, 3 …): doubles each time, up to the maximum. A quarter of
 * it is random, so that jobs which failed together do not return together.
 */
export function backoffMs(attempt: number, backoff: Backoff = {}, random: () => number = Math.random): number {
  const { firstMs = 1_000, maxMs = 3_600_000 } = backoff
  // 2 ** 1024 is Infinity, which Math.min takes in its stride.
  const full = Math.min(maxMs, firstMs * 2 ** (Math.max(1, attempt) - 1))
  return full * (0.75 + 0.25 * random())
}
