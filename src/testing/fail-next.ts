/** A handler whose next runs fail, for tests of retries. */
import { checkInteger } from '../core/check.ts'
import { InvalidOptionError } from '../core/errors.ts'
import { checkOptions } from '../core/options.ts'
import type { Handler } from '../worker/handler.ts'

export interface FailNextOptions {
  /** How many runs fail. Default: 1. */
  readonly times?: number
  /**
   * before: the handler is not called. after: it has done its work, and its outcome is lost, as in a crash. Default: before.
   */
  readonly when?: 'before' | 'after'
}

/**
 * The same handler, whose next run fails with this error: put it in the place of the other. The error may be Fatal, RetryAfter,
 * Snooze or Cancel. Of a batch handler the next call fails.
 */
export function failNext<Input, Result>(
  handler: Handler<Input, Result>,
  error: unknown = new Error('failNext()'),
  options: FailNextOptions = {},
): Handler<Input, Result> {
  if (typeof handler?.run !== 'function')
    throw new InvalidOptionError('failNext', 'make the handler with handle(kind, fn)')
  checkOptions('failNext', options, ['times', 'when'])
  let left = checkInteger('failNext.times', options.times ?? 1, 1, 1_000_000)
  const { when = 'before' } = options
  if (when !== 'before' && when !== 'after') {
    throw new InvalidOptionError('failNext.when', "it must be 'before' or 'after'")
  }
  const failing = async (run: () => unknown) => {
    if (left === 0) return run()
    left--
    if (when === 'after') await run()
    throw error
  }
  const { run, runBatch } = handler
  return {
    ...handler,
    run: (job) => failing(() => run(job)),
    runBatch:
      runBatch === undefined
        ? undefined
        : (jobs, signal) => {
            if (when === 'after' && left > 0) for (const job of jobs) Object.assign(job, DEAF)
            return failing(() => runBatch(jobs, signal))
          },
  }
}

/** What a batch handler decides is lost, too. */
const DEAF = { succeed() {}, fail() {} }
