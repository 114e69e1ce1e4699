import { checkInteger } from '../core/check.ts'
import { InvalidOptionError } from '../core/errors.ts'
import type { Kind } from '../core/kind.ts'
import { checkOptions } from '../core/options.ts'
import type { Job } from './job.ts'

export interface HandleOptions {
  /** How many jobs of this kind a worker runs at a time, within its own concurrency. Default: no limit of its own. */
  readonly concurrency?: number
  /**
   * When a write guard throws ConcurrentModificationError: cancel the job with reason `concurrent_modification`, because the
   * writer that came first has done its work, or retry it after the kind's first backoff without spending an attempt.
   * Default: cancel.
   */
  readonly onConcurrentModification?: 'cancel' | 'retry'
}

/** A kind and the function that does its work. What the function returns is stored as the job's result. */
export interface Handler {
  readonly kind: Kind
  readonly run: (job: Job<never>) => unknown
  readonly concurrency: number
  readonly onConcurrentModification: 'cancel' | 'retry'
}

/** Attaches a handler to a kind, in the worker process only. */
export function handle<Input, Parsed, Result>(
  kind: Kind<Input, Parsed, Result>,
  run: (job: Job<Parsed>) => NoInfer<Result> | Promise<NoInfer<Result>>,
  options: HandleOptions = {},
): Handler {
  if (typeof kind?.name !== 'string') throw new InvalidOptionError('kind', "declare it with kind('name', { … })")
  const of = `handle(${JSON.stringify(kind.name)})`
  checkOptions(of, options, ['concurrency', 'onConcurrentModification'])
  if (typeof run !== 'function') throw new InvalidOptionError(of, 'the handler must be a function')
  const concurrency =
    options.concurrency === undefined
      ? Number.POSITIVE_INFINITY
      : checkInteger(`${of}.concurrency`, options.concurrency, 1, 100_000)
  const { onConcurrentModification = 'cancel' } = options
  if (onConcurrentModification !== 'cancel' && onConcurrentModification !== 'retry') {
    throw new InvalidOptionError(`${of}.onConcurrentModification`, "it must be 'cancel' or 'retry'")
  }
  return { kind: kind as Kind, run: run as Handler['run'], concurrency, onConcurrentModification }
}

/** By name. A kind has one handler. */
export function handlersByKind(handlers: readonly Handler[]): Map<string, Handler> {
  if (!Array.isArray(handlers) || handlers.length === 0) {
    throw new InvalidOptionError('handlers', 'it must be a list of at least one: [handle(kind, async (job) => { … })]')
  }
  const byKind = new Map<string, Handler>()
  for (const handler of handlers) {
    if (typeof handler?.run !== 'function') throw new InvalidOptionError('handlers', 'make them with handle(kind, fn)')
    const { name } = handler.kind
    if (byKind.has(name))
      throw new InvalidOptionError(
        'handlers',
        `two of them handle ${JSON.stringify(name)}; put both into one handle(), or declare a second kind`,
      )
    byKind.set(name, handler)
  }
  return byKind
}
