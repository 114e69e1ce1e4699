import { type BackoffOption, backoffMs, checkBackoff } from '../core/backoff.ts'
import { checkInteger } from '../core/check.ts'
import { checkOptions } from '../core/options.ts'
import { Fatal, RetryAfter } from '../core/steering.ts'
import { safeDelay } from '../jobs/outcome.ts'

export interface RetryOption {
  /** How often the step is tried. Default: 5. */
  readonly attempts?: number
  /** The delay after a failure: doubles from `first` up to `max`, a quarter of it random. Default: 1s, 1h. */
  readonly backoff?: BackoffOption
}

export interface RetryPolicy {
  readonly attempts: number
  readonly backoff: { readonly firstMs: number; readonly maxMs: number }
}

export function checkRetry(option: string, retry: RetryOption | undefined, than?: RetryPolicy): RetryPolicy {
  if (retry === undefined && than !== undefined) return than
  checkOptions(option, retry ?? {}, ['attempts', 'backoff'])
  return {
    attempts: checkInteger(`${option}.attempts`, retry?.attempts ?? 5, 1, 32_767),
    backoff: checkBackoff(`${option}.backoff`, retry?.backoff, { first: '1s', max: '1h' }),
  }
}

/** After how many ms a step is tried again. Undefined: it has failed for good. */
export function retryDelayMs({ attempts, backoff }: RetryPolicy, attempt: number, error: unknown): number | undefined {
  if (error instanceof Fatal || attempt >= attempts) return undefined
  return error instanceof RetryAfter ? safeDelay(error.delayMs) : backoffMs(attempt, backoff)
}
