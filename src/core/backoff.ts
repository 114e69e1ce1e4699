import { type Duration, durationMs } from './duration.ts'
import { InvalidOptionError } from './errors.ts'
import { checkOptions } from './options.ts'

export interface Backoff {
  /** Delay after the first failure, in milliseconds. Default: 1 s. */
  readonly firstMs?: number
  /** No delay is longer, jitter included. Default: 1 h. */
  readonly maxMs?: number
}

/**
 * The delay after failed attempt number `attempt` (1, 2, 3 …): doubles each time, up to the maximum. A quarter of it is
 * random, so that jobs which failed together do not retry together.
 */
export function backoffMs(attempt: number, backoff: Backoff = {}, random: () => number = Math.random): number {
  const { firstMs = 1_000, maxMs = 3_600_000 } = backoff
  // 2 ** 1024 is Infinity; Math.min handles it.
  const full = Math.min(maxMs, firstMs * 2 ** (Math.max(1, attempt) - 1))
  return full * (0.75 + 0.25 * random())
}

export interface BackoffOption {
  readonly first?: Duration
  readonly max?: Duration
}

/** The option `backoff` of kinds, tables and consumers, in milliseconds. */
export function checkBackoff(
  option: string,
  given: BackoffOption | undefined,
  defaults: Required<BackoffOption>,
  leastMs = 0,
): { readonly firstMs: number; readonly maxMs: number } {
  if (typeof given === 'string' || typeof given === 'number') {
    const first = typeof given === 'string' ? `'${given}'` : given
    throw new InvalidOptionError(option, `it must be an object; write { first: ${first}, max: '${defaults.max}' }`)
  }
  checkOptions(option, given, ['first', 'max'])
  return {
    firstMs: durationMs(`${option}.first`, given?.first ?? defaults.first, leastMs),
    maxMs: durationMs(`${option}.max`, given?.max ?? defaults.max, leastMs),
  }
}
